// Result types that exist only for Python.
#pragma once

#include "bindings.hpp"

namespace pagedkv::bindings {

struct CsrTables {
    nb::object indptr, indices, last_page_len;
};

nb::object page_table_of(const PageTable& table, std::int32_t block_size);

}  // namespace pagedkv::bindings
