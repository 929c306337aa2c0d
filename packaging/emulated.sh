#!/bin/sh
# Runs a command where programs of aarch64 can be started: in namespaces in which qemu is registered
# for them. That needs Linux 6.7 and neither root nor a change of this machine; what was started
# ends with the command. Exit code 2: there is no qemu.
# usage: packaging/emulated.sh COMMAND [ARGUMENT]...
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || exit 2
# `F` opens the emulator now: the programs may have another root. The numbers are the identification
# of an ELF file and its fields type (executable or shared) and machine (183).
# shellcheck disable=SC2016
exec unshare --user --map-root-user --mount --pid --fork --kill-child sh -c '
begin="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
mount -t proc proc /proc &&
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
printf %s ":qemu-aarch64:M::$begin:$mask:$0:F" >/proc/sys/fs/binfmt_misc/register &&
exec "$@"' "$emulator" "$@"
