#!/usr/bin/env bash
# Builds what people install: for each platform the static program, an archive
# with its completions and manual pages, and an SBOM; on Linux also deb and rpm
# packages for Linux; and the checksums of all of it. The same commit gives the same bytes
# on every machine: nothing depends on where, when, by whom and in which folder
# it is built.
#
#   scripts/release.sh [TARGET…]                 into bin/release (or $OUT)
#   scripts/release.sh --check [--cold] [TARGET…]  builds a second time, elsewhere,
#                      and compares; --cold: with an empty build cache, so that
#                      everything is compiled anew (some minutes a target)
#
# A TARGET is GOOS/GOARCH; all six without one. $VERSION, $COMMIT and
# $SOURCE_DATE_EPOCH come from git unless they are set.
set -euo pipefail
cd "$(dirname "$0")/.."

check='' cold=''
while [[ ${1-} == --* ]]; do
	case $1 in
	--check) check=1 ;;
	--cold) cold=1 ;;
	*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
	esac
	shift
done
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
	targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
fi

die() {
	echo "release: $1" >&2
	exit 1
}
export VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || true)}
export COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || true)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || true)}
[ -n "$VERSION" ] && [ -n "$COMMIT" ] && [ -n "$SOURCE_DATE_EPOCH" ] ||
	die 'this is no git repository: set VERSION, COMMIT and SOURCE_DATE_EPOCH'
# A version goes into names of files and into flags of the linker.
[[ $VERSION =~ ^[A-Za-z0-9][A-Za-z0-9.+~-]*$ ]] || die "VERSION $VERSION: want letters, digits, . + ~ -"
version=${VERSION#v}
out=${OUT:-bin/release}

# The compiler is part of what makes the bytes, so it is the one that the
# Dockerfile names, and what the caller's environment says about code is left out.
export GOTOOLCHAIN CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false -mod=readonly' GOWORK=off \
	GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT='' GOFIPS140=off LC_ALL=C TZ=UTC
GOTOOLCHAIN=go$(sed -n 's/^ARG GO=//p' Dockerfile)
GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) GOROOT_OF=$(go env GOROOT)
export GOMODCACHE GOCACHE

unset GOOS GOARCH
umask 022
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What makes the release runs here, whatever it is made for.
go build -C tools -o "$work/" ./pack ./sbom
ldflags="-s -w -X main.version=$version -X main.commit=$COMMIT -X main.date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null ||
	date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
build() { go build -ldflags "$ldflags" -o "$1" ./cmd/tidemark; } # build FILE

# Completions and manual pages are the same everywhere; the program that is
# built for this machine writes them.
echo "release: $version ($COMMIT) with $GOTOOLCHAIN"
build "$work/tidemark"
mkdir -p "$work/home" "$work/share/completions"
tidemark() { env -i HOME="$work/home" "$work/tidemark" "$@"; }
for shell in bash zsh fish powershell; do tidemark completion "$shell" >"$work/share/completions/tidemark.$shell"; done
mv "$work/share/completions/tidemark.powershell" "$work/share/completions/tidemark.ps1"
tidemark -q man "$work/share/man1" >/dev/null
chmod -R u=rwX,go=rX "$work/share"

made=$work/made
mkdir "$made"
for target in "${targets[@]}"; do
	os=${target%/*} arch=${target#*/} began=$SECONDS
	name=tidemark_${version}_${os}_$arch tree=$work/tree/$os-$arch program=tidemark kind=tar.gz
	if [ "$os" = windows ]; then program=tidemark.exe kind=zip; fi
	mkdir -p "$tree"
	if [ "$target" = "$(go env GOOS)/$(go env GOARCH)" ]; then
		cp "$work/tidemark" "$tree/$program"
	else
		GOOS=$os GOARCH=$arch build "$tree/$program"
	fi
	"$work/sbom" -version "$version" -time "$SOURCE_DATE_EPOCH" -modules "$GOMODCACHE" -goroot "$GOROOT_OF" \
		-cyclonedx "$made/$name.cdx.json" -spdx "$made/$name.spdx.json" -licenses "$tree/THIRD-PARTY-LICENSES.txt" "$tree/$program"
	cp LICENSE README.md CHANGELOG.md "$tree/"
	cp -R "$work/share/." "$tree/"
	"$work/pack" -time "$SOURCE_DATE_EPOCH" "$made/$name.$kind" "$tree"
	if [ "$os" = linux ] && [ "$(uname -s)" = Linux ]; then
		bash packaging/packages.sh "$tree" "$made" "$arch" "$version"
	fi
	echo "release: $name.$kind: program $(wc -c <"$tree/$program") bytes, archive $(wc -c <"$made/$name.$kind") bytes, $((SECONDS - began)) s"
done
sums() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
(cd "$made" && sums -- * >"$work/sums" && mv "$work/sums" SHA256SUMS && chmod 0644 -- *)
cp "$made"/* "$out/"
echo "release: $(wc -l <"$made/SHA256SUMS" | tr -d ' ') files and their SHA256SUMS in $out"

if [ -z "$check" ]; then
	exit 0
fi

# The second time as somebody else would: another folder, home, umask, time
# zone and language. The sources are those that git knows of, and new ones.
echo 'release: once more, elsewhere'
other=$work/somewhere/else
mkdir -p "$other" "$work/nobody"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -co --exclude-standard -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done | tar -c --null -T - | tar -x -C "$other"
else
	tar -c --exclude ./bin . | tar -x -C "$other"
fi
if [ -n "$cold" ]; then GOCACHE=$work/cache; fi
(umask 077 && cd "$other" &&
	HOME=$work/nobody TZ=Pacific/Chatham LC_ALL=C.UTF-8 OUT=$work/again bash scripts/release.sh "${targets[@]}")
if ! diff -r "$made" "$work/again"; then
	die 'the two differ'
fi
echo "release: built twice, the same bytes: $(sums "$made/SHA256SUMS" | cut -c1-64)"
