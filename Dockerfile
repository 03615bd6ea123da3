# ppsim in a container: docker build -t ppsim . && docker run --rm -v "$PWD:/work" ppsim simulate 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2
# The program is that of the Debian package, with kernels for CUDA 12 (drivers 570 and later), and cuBLASLt, NCCL and cuDNN are in it, which are
# most of its size: on GPUs it takes no more from the host than the driver (docker run --gpus all). Several processes and several hosts:
# docs/dgx.md. For runs by MPI, install ppsim-mpi_*.deb beside it.
FROM debian:12-slim AS build
WORKDIR /source
COPY . .
RUN scripts/bootstrap --package --mpi --cuda12
RUN scripts/cuda12 build/cuda12-toolkit && scripts/cuda12 --libraries /opt/ppsim
RUN scripts/package -D PPSIM_CUDA=ON -D PPSIM_CUDA_ROOT=/source/build/cuda12-toolkit -D PPSIM_CUDA_CLANG=clang++-19

FROM debian:12-slim
COPY --from=build /opt/ppsim/nvidia /opt/ppsim/nvidia
COPY --from=build /source/build/package/ppsim_*.deb /tmp/
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /tmp/ppsim_*.deb \
  && rm -rf /tmp/ppsim_*.deb /var/lib/apt/lists/* \
  && ls -d /opt/ppsim/nvidia/*/lib >/etc/ld.so.conf.d/ppsim.conf && ldconfig
# NVIDIA's container runtime reads these variables.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
USER nobody
ENTRYPOINT ["ppsim"]
CMD ["--help"]
