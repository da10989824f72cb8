// One kernel, compiled as it is, and its call with arguments of the types that it declares.
//
// Compiled with -DPAGEDKV_KERNEL=name -DPAGEDKV_KERNEL_FILE="path" and the kernel's own macros.
#include "arguments.hpp"
#include "cuda_shim.hpp"

#include PAGEDKV_KERNEL_FILE

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace pagedkv_shim {
namespace {

template <class T>
T as(Argument argument) {
    if constexpr (std::is_pointer_v<T>) return reinterpret_cast<T>(argument);
    else if constexpr (std::is_class_v<T>) return *reinterpret_cast<const T*>(argument);  // passed by value, given by a buffer
    else return static_cast<T>(argument);
}

template <class... Types, std::size_t... I>
void call(void (*kernel)(Types...), const Argument* arguments, std::index_sequence<I...>) {
    static_assert((!std::is_floating_point_v<Types> && ...), "arguments.hpp knows integers and pointers");
    kernel(as<Types>(arguments[I])...);
}

template <class... Types>
void call(void (*kernel)(Types...), const Argument* arguments, std::size_t count) {
    if (count != sizeof...(Types)) {
        std::fprintf(stderr, "%zu arguments, the kernel takes %zu\n", count, sizeof...(Types));
        std::exit(2);
    }
    call(kernel, arguments, std::index_sequence_for<Types...>{});
}

}  // namespace

void call_kernel(const Argument* arguments, std::size_t count) { call(&PAGEDKV_KERNEL, arguments, count); }

}  // namespace pagedkv_shim
