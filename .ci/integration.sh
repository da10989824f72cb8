#!/usr/bin/env bash
# The installed program as a user runs it, away from the sources. $1: a scratch folder.
set -euo pipefail
repo=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
expect() {  # expect CODE COMMAND...: the exit code, and never a traceback
  local want=$1 got=0
  shift
  "$@" >out.txt 2>err.txt || got=$?
  if [ "$got" -ne "$want" ] || grep -q Traceback out.txt err.txt; then
    printf 'FAILED: %s\nexit code %s, expected %s\n' "$*" "$got" "$want"
    cat out.txt err.txt
    exit 1
  fi
  printf 'ok %s\n' "$*"
}
expect 0 pagedkv --version
expect 0 pagedkv doctor
expect 0 pagedkv selftest --device host
expect 0 pagedkv simulate --json base.json
grep -q PASS out.txt
expect 0 pagedkv simulate --concurrency 100 --closed-loop --quiet
expect 2 pagedkv simulate --blocks 0
expect 2 pagedkv simulate --block-size 1.5
expect 2 pagedkv simulate --trace missing.csv
expect 2 pagedkv simulate --device cuda:99
expect 2 pagedkv simulate --json no/such/folder/x.json
expect 0 pagedkv simulate --requests 50 --save-trace saved.jsonl --quiet
expect 0 pagedkv simulate --trace saved.jsonl --compare --quiet
expect 0 pagedkv plan --model Llama-3.1-8B --gpu H100 --quiet
expect 2 pagedkv plan --model Llama-3.1-70B --gpu H100
for example in engine_loop beam_search prefix_reuse; do expect 0 python "$repo/examples/$example.py"; done
if [ -n "${PAGEDKV_TRACE_DIR:-}" ]; then
  azure=$PAGEDKV_TRACE_DIR/azure-llm-2023
  expect 0 pagedkv simulate --trace "$azure/AzureLLMInferenceTrace_code.csv" --limit 500 --blocks 4096 --verify
  expect 0 pagedkv simulate --trace "$azure/AzureLLMInferenceTrace_conv.csv" --step-ms 50 --blocks 4096 --no-verify --json -
  expect 0 pagedkv simulate --trace "$PAGEDKV_TRACE_DIR/mooncake-fast25/conversation_trace.jsonl.gz" --prefix-caching \
    --cache-only --blocks 50000 --json -
  expect 0 pagedkv reproduce sosp23-figure2 --trace "$PAGEDKV_TRACE_DIR/sharegpt-opt-sosp23/fig2_requests_rate4_900s_seed0.csv"
  expect 0 pagedkv reproduce sosp23-figure15 \
    --trace "$PAGEDKV_TRACE_DIR/sharegpt-opt-sosp23/sharegpt_opt_text_completion_length.csv"
  expect 0 pagedkv reproduce fast25-figure9 --trace "$PAGEDKV_TRACE_DIR/mooncake-fast25/synthetic_trace.jsonl"
else
  echo "skipped: real traces (PAGEDKV_TRACE_DIR is not set)"
fi
