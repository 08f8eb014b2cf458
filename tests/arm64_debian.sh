#!/usr/bin/env bash
# Installs this checkout on an arm64 Debian and runs the demo, the doctor and tests there. The processor is emulated, a Cortex-A72 as in
# a Raspberry Pi 4, which has no SVE: what needs it ends with an illegal instruction.
#
# usage: tests/arm64_debian.sh FOLDER [TEST...]        as root; needs debootstrap, qemu-user-static (newer than 7.2), a C compiler, pip and the network
#
# FOLDER gets the system, which is kept for the next time, as are the packages of others in it. TEST is a file of tests, and all of
# tests/postgres when left out; each runs by itself, the others also if one fails. Takes over an hour on two processors.
set -euo pipefail
checkout=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \?//p' "$0" >&2; exit 2; }
root=$(realpath -m "$1")
shift
emulator=${QEMU:-$(command -v qemu-aarch64-static || command -v qemu-aarch64)} # statically linked
registered=/proc/sys/fs/binfmt_misc/pgengram-arm64

# The kernel starts every arm64 program by this one, which names the processor. A variable would not do: PostgreSQL's programs get few.
work=$(mktemp -d)
cat >"$work/start.c" <<'C'
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **given) {
    char *first[] = {"qemu-aarch64", "-cpu", "cortex-a72", "-0", given[2], given[1]}; /* with its name and its path */
    char **all = calloc(count + 4, sizeof *all);
    for (int at = 0; at < 6; at++) all[at] = first[at];
    for (int at = 3; at < count; at++) all[at + 3] = given[at];
    execv("/qemu-aarch64", all);
    return 127;
}
C
cc -O1 -static -o "$work/start" "$work/start.c"
mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
[ ! -e "$registered" ] || echo -1 >"$registered"
trap 'echo -1 >"$registered"; rm -rf "$work"' EXIT
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' # the beginning of an arm64 program
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":${registered##*/}:M::$magic:$mask:$work/start:PF" >/proc/sys/fs/binfmt_misc/register

# Runs a line there as root; what it leaves running ends with it.
enter() {
    printf '\n%s\n' "$1"
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --make-rprivate /
        mount -t proc proc "$1/proc"
        mount -t sysfs sys "$1/sys"
        mount --bind /dev "$1/dev"
        mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
        cd "$1"
        exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -euo pipefail -c "cd /checkout && $2"
    ' enter "$root" "$1"
}

if [ ! -e "$root.done" ]; then
    rm -rf "$root"
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3-venv,git trixie "$root" >"$root.log"
    cp "$emulator" "$root/qemu-aarch64"
    chroot "$root" /debootstrap/debootstrap --second-stage >>"$root.log"
    touch "$root.done"
fi
cp "$emulator" "$root/qemu-aarch64"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # what this machine trusts, the other one trusts
rm -rf "$root/checkout" "$root/wheel" "$root/root/.local" "$root/var/lib/pgengram"
mkdir "$root/checkout"
git -C "$checkout" ls-files -z | tar -C "$checkout" --null --files-from - --create | tar -C "$root/checkout" --extract
python3 -m pip wheel --quiet --no-deps --wheel-dir "$root/wheel" "$checkout"

# Ours is new each time; of the others pip gets what is missing or no longer fits.
enter "[ -e /venv/bin/pip ] || python3 -m venv /venv"
enter "pip uninstall --quiet --yes pgengram && pip install --quiet --only-binary=:all: \"\$(ls /wheel/*.whl)[dev]\" && pip check"
enter "uname -m && ! grep -o -m1 sve /proc/cpuinfo"
enter "pgengram demo && pgengram doctor"
cd "$checkout"
[ $# -gt 0 ] || set -- tests/postgres/test_*.py
failed=()
for test in "$@"; do
    enter "date && pytest -n 0 -v -rs $test" || failed+=("$test")
done
[ ${#failed[@]} = 0 ] || { printf '\nFailed there: %s\n' "${failed[*]}"; exit 1; }
printf '\nIt installs and runs there.\n'
