#!/usr/bin/env bash
# scripts/gpu_check on stand-ins: gradients of a schedule that a device refuses are wrong.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device

REFUSES=zb-v script 1 gpu_check --only gradients check
expect_out "gradients: 20 equal, 4 refused as they should be, 3 wrong, 0 had no time left"
