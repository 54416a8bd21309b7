#!/usr/bin/env bash
# Makes a deb and an rpm of a folder that release.sh built for Linux:
#
#   packaging/packages.sh FOLDER OUT ARCH VERSION
#
# dpkg-deb and rpmbuild do it, where they are there; what is missing is said. The
# bytes depend on the folder, ARCH, VERSION and $SOURCE_DATE_EPOCH, and on the
# versions of these two programs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built=$1 out=$2 arch=$3 version=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root doc=$work/root/usr/share/doc/tidemark
umask 022

# Both kinds of packages order versions by their digits, and a ~ before all: what
# has no number yet is older than every release.
case $version in
[0-9]*.[0-9]*) pack=$(sed -E 's/-([0-9]+)-g/+\1.g/; s/-dirty/+dirty/; s/-/~/g' <<<"$version") ;;
*) pack=0.0.0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(tr -- - + <<<"$version") ;;
esac

put() { install -D -m "$1" "$2" "$root/$3"; } # put MODE FILE PLACE
put 0755 "$built/tidemark" usr/bin/tidemark
put 0644 "$here/systemd/tidemark-serve.service" usr/lib/systemd/system/tidemark-serve.service
put 0644 "$here/systemd/sysusers.conf" usr/share/tidemark/sysusers.conf
put 0600 "$here/systemd/serve.env" etc/tidemark/serve.env
put 0644 "$built/completions/tidemark.bash" usr/share/bash-completion/completions/tidemark
put 0644 "$built/completions/tidemark.fish" usr/share/fish/vendor_completions.d/tidemark.fish
for page in "$built"/man1/*.1; do
	put 0644 "$page" "usr/share/man/man1/${page##*/}"
	gzip -9n "$root/usr/share/man/man1/${page##*/}"
done
put 0644 "$built/README.md" usr/share/doc/tidemark/README.md
put 0644 "$built/THIRD-PARTY-LICENSES.txt" usr/share/doc/tidemark/THIRD-PARTY-LICENSES.txt
gzip -9n "$doc/THIRD-PARTY-LICENSES.txt"

# settle gives everything in a folder the time of the release.
settle() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

deb() {
	local tree=$work/deb
	cp -a "$root" "$tree"
	install -D -m 0644 "$built/completions/tidemark.zsh" "$tree/usr/share/zsh/vendor-completions/_tidemark"
	# Debian's own names: units lie below /lib until it is one folder with /usr/lib.
	mkdir -p "$tree/lib"
	mv "$tree/usr/lib/systemd" "$tree/lib/systemd"
	rmdir "$tree/usr/lib"
	gzip -9n <"$built/CHANGELOG.md" >"$tree/usr/share/doc/tidemark/CHANGELOG.md.gz"
	printf 'tidemark (%s) unstable; urgency=medium\n\n  * What changed is in CHANGELOG.md.gz beside this file.\n\n -- %s  %s\n' \
		"$pack" "$(sed -n 's/^Maintainer: //p' "$here/deb/control")" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
		gzip -9n >"$tree/usr/share/doc/tidemark/changelog.gz"
	{
		echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
		echo 'Upstream-Name: tidemark'
		echo 'Source: https://github.com/tidemark-sessions/tidemark'
		echo 'Comment: The program contains other modules, whose terms are in'
		echo ' /usr/share/doc/tidemark/THIRD-PARTY-LICENSES.txt.gz.'
		echo
		echo 'Files: *'
		sed -n 's/^Copyright (c) /Copyright: /p' "$built/LICENSE"
		echo 'License: Expat'
		sed '1,/^Copyright/d; /./,$!d; s/^$/./; s/^/ /' "$built/LICENSE" | sed '1{/^ \.$/d}'
	} >"$tree/usr/share/doc/tidemark/copyright"
	mkdir -p "$tree/usr/share/lintian/overrides"
	cp "$here/deb/lintian-overrides" "$tree/usr/share/lintian/overrides/tidemark"
	chmod 0644 "$tree/usr/share/lintian/overrides/tidemark" "$tree/usr/share/doc/tidemark"/*
	mkdir "$tree/DEBIAN"
	install -m 0755 "$here/deb/postinst" "$here/deb/prerm" "$here/deb/postrm" "$tree/DEBIAN/"
	echo /etc/tidemark/serve.env >"$tree/DEBIAN/conffiles"
	(cd "$tree" && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
	sed -e "s/@VERSION@/$pack/; s/@ARCH@/$arch/; s/@SIZE@/$(du -k --apparent-size -s --exclude DEBIAN "$tree" | cut -f1)/" "$here/deb/control" >"$tree/DEBIAN/control"
	chmod 0644 "$tree/DEBIAN/control" "$tree/DEBIAN/conffiles" "$tree/DEBIAN/md5sums"
	settle "$tree"
	dpkg-deb --root-owner-group -Zxz -z1 --threads-max=1 --build "$tree" "$out/tidemark_${pack}_$arch.deb" >/dev/null
}

rpm() {
	local tree=$work/rpm machine=x86_64
	if [ "$arch" = arm64 ]; then machine=aarch64; fi
	cp -a "$root" "$tree"
	install -D -m 0644 "$built/completions/tidemark.zsh" "$tree/usr/share/zsh/site-functions/_tidemark"
	install -m 0644 "$built/LICENSE" "$tree/usr/share/doc/tidemark/LICENSE"
	settle "$tree"
	HOME=$work rpmbuild --quiet -bb --target "$machine-linux" --define "_topdir $work/rpmbuild" --define "_rpmdir $work/made" \
		--define "_rpmfilename %{NAME}.rpm" --define "tree $tree" --define "packversion $pack" --define "_tmppath $work" \
		"$here/rpm/tidemark.spec" </dev/null 2>"$work/said" || {
		cat "$work/said" >&2
		return 1
	}
	mv "$work/made/tidemark.rpm" "$out/tidemark-$pack-1.$machine.rpm"
}

if command -v dpkg-deb >/dev/null; then deb; else echo 'packages: no deb is made: there is no dpkg-deb here' >&2; fi
if command -v rpmbuild >/dev/null; then rpm; else echo 'packages: no rpm is made: there is no rpmbuild here' >&2; fi
