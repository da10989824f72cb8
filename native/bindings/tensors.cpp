// Memory as a DLPack tensor: a view of bytes that `owner` keeps alive, for any framework, on any device.
#include "bindings.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace pagedkv::bindings {

namespace {

constexpr std::size_t kMostDims = 8;

using Format = std::tuple<std::uint8_t, std::uint8_t>;  // DLPack's type code, bits
using Device = std::tuple<int, int>;                    // DLPack's device type, device id

nb::object tensor(nb::object owner, std::uint64_t address, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides, Format format, Device device) {
    if (shape.size() != strides.size() || shape.size() > kMostDims)
        throw InvalidArgument(join("shape has ", shape.size(), " dimensions, strides has ", strides.size(),
                                   "; give one stride a dimension, ", kMostDims, " at most"));
    std::vector<std::size_t> extents;
    for (const std::int64_t n : shape) {
        if (n < 0) throw InvalidArgument(join("shape has the negative extent ", n));
        extents.push_back(static_cast<std::size_t>(n));
    }
    const auto [code, bits] = format;
    const auto [device_type, device_id] = device;
    const nb::dlpack::dtype dtype{code, bits, 1};
    const nb::ndarray<nb::array_api> made(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), extents.size(),
                                          extents.data(), owner, strides.data(), dtype, device_type, device_id);
    return nb::cast(made);
}

}  // namespace

void bind_tensors(nb::module_& m) {
    m.def("dlpack_tensor", &tensor, nb::arg("owner"), nb::arg("address"), nb::arg("shape"), nb::arg("strides"),
          nb::arg("format"), nb::arg("device"),
          nb::sig("def dlpack_tensor(owner: object, address: int, shape: Sequence[int], strides: Sequence[int], "
                  "format: tuple[int, int], device: tuple[int, int]) -> object"),
          "An object with __dlpack__ over memory that `owner` keeps alive; strides in elements, format is DLPack's "
          "(type code, bits), device its (type, id). Checks nothing of the memory.");
}

}  // namespace pagedkv::bindings
