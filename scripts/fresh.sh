#!/usr/bin/env bash
# What `make fresh` runs: a bare Debian 12 with Go, git and make, and nothing
# else, into which the current commit is cloned with nothing beside it; there
# scripts/newcomer.sh does what the README says. It takes half an hour, leaves
# nothing behind, and needs root on Linux (for debootstrap, which apt-get brings
# where it is missing) or else a container engine: docker or podman.
#
#   ROOT=DIR scripts/fresh.sh     copies a root that debootstrap made before
#
# How this machine reaches others goes along, whatever that is: the name
# servers, certificates, proxies, the mirror of Debian, and what Go and npm are
# configured with. Neither caches nor credentials do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

suite=bookworm
die() {
	echo "fresh: $1" >&2
	exit 1
}

# inside does the part that sees mounts of its own and, in process 1 of its own
# numbering, takes every process with it when it ends.
inside() { # inside DIR
	local root=$1
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
	mount --bind "$root/dev/pts/ptmx" "$root/dev/ptmx"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	mount --bind -o ro "$(go env GOROOT)" "$root/usr/local/go"
	chroot "$root" /usr/bin/env -i bash /root/newcomer.sh
}
if [ "${1-}" = --inside ]; then
	inside "$2"
	exit
fi

began=$SECONDS
work=$(mktemp -d "${TMPDIR:-/var/tmp}/tidemark-fresh.XXXXXX")
child=''
leave() {
	# Process 1 in there dies with the one that waits for it, and all others
	# with process 1: then nothing is mounted any more.
	[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
	wait
	rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM HUP

# What goes in, beside Go: the commit, this machine's ways to others, and a
# script that says them and begins.
luggage=$work/luggage
mkdir "$luggage"
git bundle create --quiet "$luggage/tidemark.bundle" HEAD --tags
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain)" ] || echo "fresh: what is not committed stays out" >&2
{
	echo 'set -euo pipefail'
	echo 'export HOME=/root USER=root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
	for name in GOPROXY GONOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE; do
		printf 'export %s=%q\n' "$name" "$(go env "$name")"
	done
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[ -z "${!name-}" ] || printf 'export %s=%q\n' "$name" "${!name}"
	done
	# One file of certificates for all who read one: what this machine trusts.
	for file in "${SSL_CERT_FILE-}" /etc/ssl/certs/ca-certificates.crt; do
		[ ! -f "$file" ] || {
			cp "$file" "$luggage/certificates.crt"
			echo 'export SSL_CERT_FILE=/root/certificates.crt NODE_EXTRA_CA_CERTS=/root/certificates.crt'
			break
		}
	done
	cat <<-'END'
		cd /root
		git clone --quiet tidemark.bundle tidemark
		exec bash tidemark/scripts/newcomer.sh
	END
} >"$luggage/newcomer.sh"
for file in "${NPM_CONFIG_USERCONFIG:-$HOME/.npmrc}"; do
	# What names a token or a password stays here.
	[ ! -f "$file" ] || grep -viE 'auth|password|token|key' "$file" >"$luggage/.npmrc" || true
done

if [ "$(uname -s)" = Linux ] && [ "$(id -u)" -eq 0 ]; then
	PATH=$PATH:/usr/sbin:/sbin
	root=$work/root
	if [ -n "${ROOT-}" ]; then
		cp -a "$ROOT" "$root"
	else
		command -v debootstrap >/dev/null || apt-get install -y -q debootstrap >&2 || die 'there is no debootstrap'
		# The mirror that this machine uses; its default where it has none.
		mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null | sed -n "s| $suite\$||p" | head -1 || true)
		echo "fresh: making a bare Debian ($suite)"
		debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$root" ${mirror:+"$mirror"} >"$work/debootstrap.log" ||
			die "debootstrap: $(tail -5 "$work/debootstrap.log")"
	fi
	cp -a "$luggage/." "$root/root/"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	apt-config dump Acquire 2>/dev/null | grep -iE '::(proxy|verify|cainfo|check-valid-until|retries)' >"$root/etc/apt/apt.conf.d/90fresh" || true
	mkdir -p "$root/usr/local/go"
	run=(unshare --mount --propagation private --pid --fork --kill-child bash "$0" --inside "$root")
else
	engine=$(command -v podman || command -v docker) || die 'needs root on Linux, or podman or docker'
	run=("$engine" run --rm -v "$luggage:/luggage:ro" -v "$(go env GOROOT):/usr/local/go:ro" "debian:$suite-slim" bash -c
		'cp -a /luggage/. /root/ && apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates git make >/dev/null && exec env -i bash /root/newcomer.sh')
fi
echo "fresh: $commit on a bare Debian ($suite), ready after $((SECONDS - began)) s"
code=0
"${run[@]}" </dev/null &
child=$!
wait "$child" || code=$?
child=''
echo "fresh: $((SECONDS - began)) s in all, $([ "$code" -eq 0 ] && echo 'both commands work' || echo "failed with $code")"
exit "$code"
