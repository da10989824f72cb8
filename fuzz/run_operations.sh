#!/usr/bin/env bash
# Builds the operations fuzzer with clang and runs it. Usage: run_operations.sh [CORPUS_FOLDER] [libFuzzer options...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../build/fuzz}
corpus=${1:-$build/corpus}
mkdir -p "$build" "$corpus"
"${CLANG:-clang++}" -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -D_GLIBCXX_ASSERTIONS \
  -Wall -Wextra -Wpedantic -Wconversion -Werror -I"$here/../native/include" -I"$here" \
  "$here"/operations.cpp "$here"/program*.cpp "$here"/*_model*.cpp "$here"/event_picture.cpp "$here"/../native/src/*.cpp -o "$build/operations"
exec "$build/operations" -max_len=400 -timeout=10 -print_final_stats=1 "${@:2}" "$corpus" "$here/seeds/operations"
