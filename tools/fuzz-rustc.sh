#!/bin/sh
# Compiles a crate of the workspace so that libFuzzer sees which code an input reaches. For cargo's RUSTC_WORKSPACE_WRAPPER:
# cargo keeps what it has compiled with a wrapper apart from the rest, and does not use it for third-party crates, which are
# shared with all other builds. These options of LLVM need no nightly compiler.
set -eu

for word in "$@"; do
	case $word in
	# They run inside the compiler or before it, where there is no fuzzer.
	proc-macro | build_script_*) exec "$@" ;;
	esac
done
exec "$@" \
	-Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares
