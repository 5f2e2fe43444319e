#!/usr/bin/env bash
# Builds the files of a release from this checkout: archives, packages, lists of contents and checksums. It publishes
# nothing. Two runs over one commit with one version of Go build the same programs. In a work tree that is not a clone,
# Go finds no version.
#
#   scripts/release.sh            all platforms, into dist
#   PLATFORMS="linux/amd64 …"     these platforms only
#   OUT=DIR                       another folder, which must not exist yet
#   TRIM=                         without -trimpath: quicker for a test, since it uses what is in the build cache
#
# The version is that of the commit's tag, or else a pseudo-version, as go build writes it into the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=release
. scripts/need.sh

platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
trim=${TRIM--trimpath}
out=${OUT:-dist}
[[ -n ${OUT:-} ]] || rm -rf dist
[[ ! -e $out ]] || fail "$out exists: choose another folder"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

began=$SECONDS
need_go
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH CGO_ENABLED=0

# The tools have a module of their own, so that they choose no version for anything else.
tool() { go tool -modfile=tools/release/go.mod "$@"; }

# build builds the program for a platform, with commit and date inside wherever git knows them, and without the tables
# of a debugger, which are a quarter of it. Stack traces stay complete.
build() {
	# TRIM may be empty, so it is not quoted.
	# shellcheck disable=SC2086
	GOOS=${1%/*} GOARCH=${1#*/} go build $trim -buildvcs=auto -ldflags='-s -w' -o "$work/bin/${1/\//_}/perdure" ./cmd/perdure
}

# archive packs a folder of $work, the same way each time where tar is GNU's.
archive() {
	local same=()
	if tar --version 2>/dev/null | grep -q GNU; then
		same=(--sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner)
	fi
	tar "${same[@]}" -C "$work" -cf - "$1" | gzip -9n >"$out/$1.tar.gz"
}

here=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
for platform in $here $platforms; do
	[[ -e $work/bin/${platform/\//_}/perdure ]] || { step "building $platform" && build "$platform"; }
done
program=$work/bin/${here/\//_}/perdure
version=$(go version -m "$program" | awk '$1 == "mod" { print $3 }')
[[ $version == v* ]] || version=v0.0.0-devel
step "version $version"

# Man pages and completion come from the program itself, in an empty home, so that no setting of this machine counts.
perdure_here() { env HOME="$work/home" XDG_CONFIG_HOME="$work/home" "$program" "$@"; }
mkdir -p "$work/home" "$work/files/completions"
perdure_here help --man "$work/files/man" 2>/dev/null
find "$work/files/man" -type f -exec gzip -9n {} +
perdure_here completion bash >"$work/files/completions/perdure.bash"
perdure_here completion zsh >"$work/files/completions/_perdure"
perdure_here completion fish >"$work/files/completions/perdure.fish"
perdure_here completion pwsh >"$work/files/completions/perdure.ps1"

for platform in $platforms; do
	os=${platform%/*} arch=${platform#*/}
	binary=$work/bin/${platform/\//_}/perdure
	name=perdure_${version#v}_${os}_$arch
	step "packing $name"
	mkdir "$work/$name"
	cp "$binary" LICENSE README.md CHANGELOG.md "$work/$name"
	cp -R "$work/files/man" "$work/files/completions" "$work/$name"
	[[ $os != linux ]] || cp packaging/perdure.service packaging/sysusers.conf packaging/perdure.env "$work/$name"
	archive "$name"
	tool cyclonedx-gomod bin -json -noserial -version "$version" -output "$out/$name.cdx.json" "$binary" 2>"$work/talk" ||
		fail "the list of contents: $(tail -n 3 "$work/talk")"
	[[ $os == linux ]] || continue
	for packager in deb rpm apk; do
		ARCH=$arch VERSION=${version#v} BINARY=$binary FILES=$work/files \
			tool nfpm package --config packaging/nfpm.yaml --packager "$packager" --target "$out/$name.$packager" >/dev/null
	done
done

sum=(sha256sum)
command -v sha256sum >/dev/null || sum=(shasum -a 256)
(cd "$out" && "${sum[@]}" perdure_* >checksums.txt)
(cd "$out" && ls -l | awk 'NR > 1 { printf "%10.1f MB  %s\n", $5 / 1e6, $NF }')
step "done in $((SECONDS - began)) s: $out"
