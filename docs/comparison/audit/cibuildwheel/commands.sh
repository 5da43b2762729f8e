auditwheel show other.whl
abi3audit other.whl
check-wheel-contents other.whl
unzip -d other other.whl
cuobjdump --list-elf --list-ptx other/*/*.so
