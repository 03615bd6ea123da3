# ppsim in a container: docker build -t ppsim . && docker run --rm -v "$PWD:/work" ppsim simulate 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2
# The program is that of the Debian package: it simulates, proves and runs on the processor; on GPUs it takes the libraries of the
# host (docker run --gpus all). For runs on several processes by MPI, install ppsim-mpi_*.deb beside it.
FROM debian:12-slim AS build
WORKDIR /source
COPY . .
RUN scripts/package

FROM debian:12-slim
COPY --from=build /source/build/package/ppsim_*.deb /tmp/
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /tmp/ppsim_*.deb \
  && rm -rf /tmp/ppsim_*.deb /var/lib/apt/lists/*
WORKDIR /work
USER nobody
ENTRYPOINT ["ppsim"]
CMD ["--help"]
