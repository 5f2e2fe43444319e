package file

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Some hosts know a file by several spellings of its name: in other case, or composed otherwise. For a session one
// spelling is one file (FI1), so what is found by another spelling than its own is not what was asked for.

// misspelled reports whether the host found something by another spelling of its name. found is what stands at name; the
// folder is read only where the host also finds it with the case of all letters turned.
func (d *Dir) misspelled(name string, found fs.FileInfo) bool {
	turned := strings.Map(turnCase, name)
	if turned == name && isASCII(name) {
		return false
	}
	if other, err := d.root.Lstat(local(turned)); err != nil || !os.SameFile(found, other) {
		return false
	}
	return !spelled(name, func(dir string) []string {
		f, err := d.openDirectory(dir)
		if err != nil {
			return nil
		}
		defer f.Close()
		names, _ := f.Readdirnames(-1) // what could not be read is not there
		return names
	})
}

// spelled reports whether each part of a path stands in its folder exactly as it is written.
func spelled(name string, entries func(dir string) []string) bool {
	for ; name != "/"; name = path.Dir(name) {
		if !slices.Contains(entries(path.Dir(name)), path.Base(name)) {
			return false
		}
	}
	return true
}

func turnCase(r rune) rune {
	if unicode.IsUpper(r) {
		return unicode.ToLower(r)
	}
	return unicode.ToUpper(r)
}

func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII })
}
