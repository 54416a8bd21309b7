#!/usr/bin/env bash
# Installs the programs that tests use beside Go, where they are missing and
# apt-get can bring them, and then what those programs bring. What it cannot
# install it names, and goes on: the tests that need it say so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PATH=$PATH:/usr/sbin:/sbin

missing=()
need() { # need COMMAND PACKAGE
	command -v "$1" >/dev/null || missing+=("$2")
}
need sqlite3 sqlite3     # asks the store with SQL, as a person would
need tmux tmux           # a real terminal
# Opens pages, hostile ones too. It is Chromium without windows, which takes half
# the time; where it is not to be had, the whole browser will do.
need chromium-headless-shell chromium-headless-shell
need mkfs.ext4 e2fsprogs # file systems to cut the power of
need mkfs.xfs xfsprogs
need pgbouncer pgbouncer # a pooler in front of PostgreSQL
need python3 python3     # the example clients
need node nodejs
need npm npm
need dpkg-deb dpkg       # packages
need rpmbuild rpm
need lintian lintian
need systemd-analyze systemd
need ps procps           # what runs
need git git
need groff groff-base    # shows manual pages
need zbarimg zbar-tools   # reads QR codes
need sshd openssh-server # a machine that remotes by ssh reach
need curl curl           # the examples of the HTTP guide
need update-ca-certificates ca-certificates # whom npm believes
# Distributions keep the server's programs out of PATH, a folder a version.
if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	missing+=(postgresql) # the server itself; each test runs a private one
fi

without() {
	echo "deps: going on without ${missing[*]}: $1" >&2
}

apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

# Installing PostgreSQL makes a cluster and starts it, which no test uses: not
# while this says otherwise. It is taken back after, for it is no business of
# whoever installs PostgreSQL here later.
no_cluster=/etc/postgresql-common/createcluster.d/tidemark.conf
say_no_cluster() {
	"${as_root[@]}" sh -c 'mkdir -p "${0%/*}" && echo "create_main_cluster = false" >"$0"' "$no_cluster"
}

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	as_root=(sudo)
	if [ ! -t 0 ]; then
		as_root=(sudo -n) # nobody is there to type a password
	fi
fi

updated=
update() { # once
	[ -z "$updated" ] || return 0
	updated=yes
	apt update || echo "deps: apt-get update failed; trying with what is known" >&2
}

packages() {
	command -v apt-get >/dev/null || { without "there is no apt-get here"; return; }
	[ ${#as_root[@]} -eq 0 ] || command -v sudo >/dev/null || { without "not root, and there is no sudo"; return; }
	echo "deps: installing ${missing[*]}" >&2
	update
	case " ${missing[*]} " in
	*" postgresql "*)
		say_no_cluster || { without "$no_cluster cannot be written"; return; }
		trap '"${as_root[@]}" rm -f "$no_cluster"' EXIT
		;;
	esac
	apt install -y --no-install-recommends "${missing[@]}" && return
	# One that cannot be installed should not keep the others away.
	for package in "${missing[@]}"; do
		[ "$package" != chromium-headless-shell ] || command -v chromium >/dev/null || package="$package chromium"
		for name in $package; do
			apt install -y --no-install-recommends "$name" && break
			echo "deps: going on without $name: apt-get install failed" >&2
		done
	done
}
[ ${#missing[@]} -eq 0 ] || packages

# What looks for barriers in pages. It is no program, so npm alone brings it:
# after npm itself has come.
axe=bin/axe.min.js
if [ ! -e "$axe" ]; then
	folder=$(mktemp -d)
	if command -v npm >/dev/null &&
		(cd "$folder" && npm pack --silent axe-core@4.14.0 >/dev/null && tar -xzf axe-core-*.tgz package/axe.min.js) </dev/null; then
		mkdir -p bin && mv "$folder/package/axe.min.js" "$axe"
	else
		echo "deps: going on without axe-core: npm cannot bring it" >&2
	fi
	rm -rf "$folder"
fi

# Proxies, and what checks the rules of Prometheus. Installed, they would start as
# services of this machine, so their packages are only unpacked.
fetch() { # fetch PACKAGE FOLDER
	(cd "$2" && apt-get -q -o APT::Sandbox::User=root download "$1") </dev/null >&2
}
beside() { # beside COMMAND PACKAGE FILE
	! command -v "$1" >/dev/null && [ ! -e "bin/$1" ] || return 0
	local folder
	folder=$(mktemp -d)
	if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null &&
		{ fetch "$2" "$folder" || { update && fetch "$2" "$folder"; }; } &&
		(cd "$folder" && dpkg-deb -x "$2"_*.deb . && [ -e "$3" ]); then
		mkdir -p bin && mv "$folder/$3" "bin/$1"
	else
		echo "deps: going on without $1: apt-get cannot bring $2" >&2
	fi
	rm -rf "$folder"
}
beside nginx nginx usr/sbin/nginx
beside caddy caddy usr/bin/caddy
beside promtool prometheus usr/bin/promtool

# A server that speaks S3, for remotes in storage. It is a program in Go, in a module
# of its own, so that no go.mod of ours names what it needs.
gateway=bin/versitygw
if [ ! -e "$gateway" ] || [ tools/gateway/go.mod -nt "$gateway" ]; then
	CGO_ENABLED=0 "${GO:-go}" build -C tools/gateway -o "../../$gateway" github.com/versity/versitygw/cmd/versitygw >&2 ||
		echo "deps: going on without versitygw: go cannot build it" >&2
fi
