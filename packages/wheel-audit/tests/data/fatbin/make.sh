#!/bin/sh
# Makes the fixtures anew: make.sh CUDA13_ROOT PTXAS_DIR CUOBJDUMP
#   CUDA13_ROOT  nvidia/cu13 of `pip install --target T 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]==13.0.3'`
#   PTXAS_DIR    holds ptxas-11.8, ptxas-12.4, ptxas-12.8 and ptxas-12.9 of nvidia-cuda-nvcc-cu11/-cu12
#   CUOBJDUMP    of nvidia-cuda-cuobjdump 13.5.37
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cuda=$1 old=$2 cuobjdump=$3
work=$(mktemp -d)
cd "$work"
cp "$here/kernel.cu" .
PATH=$cuda/bin:$PATH

link() { # NAME INPUT...
  name=$1
  shift
  gcc -shared -nostdlib -s -Wl,-z,noseparate-code -o "$here/$name.so" "$@"
  "$cuobjdump" -all "$here/$name.so" >"$here/$name.txt"
}

build() { # NAME OPTION...
  name=$1
  shift
  nvcc -c -Xcompiler -fPIC "$@" kernel.cu -o "$name.o"
  link "$name" "$name.o"
}

sm75_to_120="-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
  -gencode arch=compute_90,code=sm_90 -gencode arch=compute_120,code=[sm_120,compute_120]"
build plain $sm75_to_120 --compress-mode=none
build default $sm75_to_120
build lz4 $sm75_to_120 --compress-mode=speed -Xfatbin -compress-all
build zstd $sm75_to_120 --compress-mode=size
build variants --compress-mode=none -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' \
  -gencode 'arch=compute_100f,code=[sm_100f,compute_100f]' -gencode arch=compute_103a,code=sm_103a
build relocatable -rdc=true -gencode 'arch=compute_90,code=[sm_90,lto_90]'

# Machine code of older toolkits, packed by the fatbinary of 13.0: these have no compiler in the index.
for release in 11.8 12.4 12.8 12.9; do
  set --
  case $release in
  11.8) archs='52 80 90' isa=7.8 ;;
  12.4) archs='80 90 90a' isa=8.4 ;;
  12.8) archs='90a 100a 120' isa=8.7 ;;
  12.9) archs='90 100f 103a' isa=8.8 ;;
  esac
  for arch in $archs; do
    printf '.version %s\n.target sm_%s\n.address_size 64\n.visible .entry scale(.param .u64 p) { ret; }\n' \
      $isa "$arch" >"$arch.ptx"
    "$old/ptxas-$release" -arch "sm_$arch" "$arch.ptx" -o "$arch.cubin"
    set -- "$@" "--image3=kind=elf,sm=$arch,file=$arch.cubin"
  done
  fatbinary --create=image.fatbin -64 "$@" "--image3=kind=ptx,sm=$arch,file=$arch.ptx" \
    --compress-mode=speed --compress-all
  echo '.section .nv_fatbin,"a"; .align 8; .incbin "image.fatbin"; .section .note.GNU-stack,"",@progbits' >embed.s
  link "ptxas-$release" embed.s
done

# Two objects, so two fat binaries in one section, and the same file without section headers.
nvcc -c -Xcompiler -fPIC -arch=sm_80 kernel.cu -o one.o
nvcc -c -Xcompiler -fPIC -arch=sm_90 -Dlaunch=other -Dscale=other_scale kernel.cu -o two.o
link two one.o two.o
cp "$here/two.so" "$here/headerless.so"
# e_shoff, then e_shnum and e_shstrndx
printf '\0\0\0\0\0\0\0\0' | dd of="$here/headerless.so" bs=1 seek=40 conv=notrunc status=none
printf '\0\0\0\0' | dd of="$here/headerless.so" bs=1 seek=60 conv=notrunc status=none
cp "$here/two.txt" "$here/headerless.txt"
chmod 644 "$here"/*.so
rm -rf "$work"
