#!/usr/bin/env bash
# Installs this checkout on a Debian or Ubuntu as it comes, by the lines of the README, and runs the demo and the doctor: as root
# with uv, and as a user with pipx. There is no `ps` and no compiler, the system's Python refuses packages of others, and shared memory is 64 kB,
# to which only root may write.
#
# usage: tests/bare_debian.sh FOLDER [SUITE [MIRROR]]        as root; needs debootstrap and the network
#
# FOLDER gets the system, which is kept for the next time. SUITE is trixie when left out, noble for Ubuntu; MIRROR is the one that
# debootstrap knows for it.
set -euo pipefail
checkout=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \?//p' "$0" >&2; exit 2; }
root=$(realpath -m "$1")
certificates=/etc/ssl/certs/ca-certificates.crt # what this machine trusts, the other one trusts

if [ ! -e "$root.done" ]; then
    rm -rf "$root"
    case ${2-} in
        noble) like=(--components=main,universe noble "$root" "${3:-http://archive.ubuntu.com/ubuntu}" gutsy) ;; # as every Ubuntu
        *) like=("${2:-trixie}" "$root" ${3:+"$3"}) ;;
    esac
    debootstrap --variant=minbase "${like[@]}" >"$root.log"
    touch "$root.done"
fi

# Runs a line there as root, or as the user; what it leaves running ends with it.
enter() {
    printf '\n%s: %s\n' "$1" "$2"
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --make-rprivate /
        mount -t proc proc "$1/proc"
        mount -t devpts devpts "$1/dev/pts"
        mount -t tmpfs -o size=64k,mode=755 shm "$1/dev/shm"
        cd "$1"
        exec chroot --userspec="$2:$2" "$1" /usr/bin/env -i HOME="$3" LANG=C.UTF-8 \
            PATH="$3/.local/bin:/usr/sbin:/usr/bin:/sbin:/bin" PIP_CERT='"$certificates"' SSL_CERT_FILE='"$certificates"' \
            bash -euo pipefail -c "cd /checkout && $4"
    ' enter "$root" "$1" "$([ "$1" = root ] && echo /root || echo "/home/$1")" "$2"
}

cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/etc/ssl/certs" "$root/dev/shm"
rm -rf "$root/checkout" "$root/root/.local" "$root/home/somebody/.local"
mkdir "$root/checkout"
git -C "$checkout" ls-files -z | tar -C "$checkout" --null --files-from - --create | tar -C "$root/checkout" --extract

enter root "apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends pipx >/dev/null"
cp "$certificates" "$root$certificates"
enter root "rm -f /usr/bin/ps && ! command -v ps cc gcc g++ clang && ls /usr/lib/python3*/EXTERNALLY-MANAGED" # Ubuntu has one
enter root "id somebody >/dev/null 2>&1 || useradd --create-home somebody; chown -R somebody /checkout"

enter root "pipx install --quiet uv && uv tool install --quiet ."
enter root "pgengram demo && pgengram doctor"
enter somebody "if touch /dev/shm/mine 2>/dev/null; then exit 1; fi; pipx install --quiet ."
enter somebody "pgengram demo && pgengram doctor"
printf '\nIt installs and runs there.\n'
