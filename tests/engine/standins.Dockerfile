# Images laid out as others publish them, of what this machine has: a CUDA tree that bakery itself made, on Debian.
# "fresh" is another file each time: what is made of such an image is in no cache.

FROM tree AS made
# NVIDIA's packages keep it all below targets/, and a stub of the driver that is not ours.
RUN set -eu; mkdir -p /out/targets/x86_64-linux/lib/stubs; cp -a /usr/local/cuda/. /out/; cd /out; \
    rm -rf lib/stubs lib64; mv lib/* targets/x86_64-linux/lib/; rmdir lib; ln -s targets/x86_64-linux/lib lib64; \
    mv include targets/x86_64-linux/; ln -s targets/x86_64-linux/include include; ln -s lib64 lib; \
    echo '' | cc -shared -x c - -Wl,-soname,libcuda.so.1 -o lib64/stubs/libcuda.so

# nvidia/cuda, devel: compilers and CUDA, and no Python, git or ccache.
FROM debian:bookworm-slim AS nvidia
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends build-essential && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=made /out /usr/local/cuda-13.0
RUN ln -s cuda-13.0 /usr/local/cuda
ENV CUDA_VERSION=13.0.3 \
    PATH=/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LIBRARY_PATH=/usr/local/cuda/lib64/stubs \
    NVIDIA_VISIBLE_DEVICES=all
COPY --from=fresh / /etc/stand-in/

# manylinux_cuda: pypa's image and CUDA, with the stub where no build system looks.
FROM manylinux AS manylinux-cuda
COPY --from=made /out /usr/local/cuda-13.0
RUN ln -s cuda-13.0 /usr/local/cuda && mv /usr/local/cuda/lib64/stubs /usr/local/cuda/somewhere
COPY --from=fresh / /etc/stand-in/

# pypa's image: of Red Hat's family, as far as scripts can tell, and a repository of NVIDIA's beside it.
FROM manylinux AS redhat
RUN rm /usr/bin/apt-get
COPY --chmod=0755 dnf /usr/bin/dnf
COPY --from=made /out /srv/cuda/cuda-13.0
COPY --from=key / /srv/cuda/
COPY --from=fresh / /etc/stand-in/

# pypa's image with a signed repository for apt, whose CUDA answers and compiles nothing.
FROM manylinux AS debian-repository
COPY --from=repository / /srv/cuda
COPY --from=fresh / /etc/stand-in/
