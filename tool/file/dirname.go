package file

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Some hosts find a file by several spellings of its name: in other case, or with other Unicode
// composition. In a session each file has exactly one name (FI1). So a file that is found by
// another spelling than its own does not count as found.

// misspelled reports whether the host found a file by another spelling of its name. found is what
// the host found at name. The folder is read only if the host also finds it with the case of all
// letters inverted.
func (d *Dir) misspelled(name string, found fs.FileInfo) bool {
	turned := strings.Map(swapCase, name)
	if turned == name && isASCII(name) {
		return false
	}
	if other, err := d.root.Lstat(local(turned)); err != nil || !os.SameFile(found, other) {
		return false
	}
	return !exactName(name, func(dir string) []string {
		f, err := d.openDirectory(dir)
		if err != nil {
			return nil
		}
		defer f.Close()
		names, _ := f.Readdirnames(-1) // names that could not be read do not count
		return names
	})
}

// exactName reports whether each part of a path exists in its folder exactly as written.
func exactName(name string, entries func(dir string) []string) bool {
	for ; name != "/"; name = path.Dir(name) {
		if !slices.Contains(entries(path.Dir(name)), path.Base(name)) {
			return false
		}
	}
	return true
}

func swapCase(r rune) rune {
	if unicode.IsUpper(r) {
		return unicode.ToLower(r)
	}
	return unicode.ToUpper(r)
}

func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII })
}
