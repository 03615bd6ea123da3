#!/usr/bin/env bash
# fatbin.sh ARCHITECTURE CUBIN FATBIN: packs the machine code of one architecture as the CUDA runtime reads it, uncompressed.
# Does byte for byte what NVIDIA's fatbinary does, which PyPI's packages of CUDA 12 lack.
set -euo pipefail
architecture=$1 cubin=$2 fatbin=$3

# number VALUE BYTES: in binary, the lowest byte first.
number() {
  local value=$(($1)) i
  for ((i = 0; i < $2; ++i)); do
    printf "\\x$(printf %02x $((value & 255)))"
    value=$((value >> 8))
  done
}

size=$(stat -c %s "$cubin")
padded=$(((size + 7) / 8 * 8))
{
  number 0xba55ed50 4                        # the sign of a container
  number 1 2 && number 16 2                  # its version, and the size of this header
  number $((64 + padded)) 8                  # the bytes behind it
  number 2 2 && number 0x101 2 && number 64 4  # machine code, version 1.1, the size of this header
  number $padded 8
  number 0 8                                 # not compressed
  number 7 2 && number 1 2                   # the version of the code's format
  number "$architecture" 4
  number 0 8                                 # no name
  number 0x11 8                              # 64 bits, Linux
  number 0 16
  cat "$cubin"
  number 0 $((padded - size))
} >"$fatbin"
