package archtest

import (
	"fmt"
	"path"
	"strings"
)

// checkLibraries compares the direct requirements of go.mod, and who imports them, with the table of libraries.
func checkLibraries(m *module) []finding {
	found := checkRequirements(m)
	for _, f := range m.files {
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			if _, ours := m.folderOf(p); ours || !foreign(p) {
				continue
			}
			if message := f.refuses(p); message != "" {
				found = append(found, finding{path: f.path, line: f.line(spec.Pos()), message: message})
			}
		}
	}
	return found
}

func checkRequirements(m *module) []finding {
	versions := make(map[string]string)
	for _, l := range libraries() {
		versions[l.module] = l.version
	}
	var found []finding
	for _, r := range m.requires {
		switch want, ok := versions[r.module]; {
		case !ok:
			found = append(found, finding{path: "go.mod", line: r.line, message: fmt.Sprintf(
				"requires %s directly: do without it, or add a row to libraries.go and say in the commit what it saves", r.module)})
		case want != r.version:
			found = append(found, finding{path: "go.mod", line: r.line, message: fmt.Sprintf(
				"requires %s at %s, libraries.go says %s: take that one, or read the changelog and change both", r.module, r.version, want)})
		}
	}
	return found
}

// foreign reports whether an import path is outside the standard library, whose first elements have no dot.
func foreign(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}

// refuses says why the file may not import a library; empty means that it may.
func (f *file) refuses(importPath string) string {
	if importPath == "golang.org/x/sys" || strings.HasPrefix(importPath, "golang.org/x/sys/") {
		return "imports " + importPath + ": use syscall or os, golang.org/x/sys is never imported directly"
	}
	lib, ok := libraryOf(importPath)
	if !ok {
		return fmt.Sprintf("imports %s, which no row of libraries.go allows: do without it, or add a row", importPath)
	}
	for _, pattern := range strings.Fields(lib.rooms) {
		if ok, _ := path.Match(pattern, f.folder); ok || pattern == tests && (f.test || f.suite()) {
			return ""
		}
	}
	return fmt.Sprintf("imports %s, which is for %s only: use it there, behind a port (libraries.go)",
		importPath, strings.Join(strings.Fields(lib.rooms), ", "))
}

// libraryOf returns the library that an import path belongs to: the row with the longest module that is a prefix of it.
func libraryOf(importPath string) (library, bool) {
	var best library
	for _, l := range libraries() {
		if (importPath == l.module || strings.HasPrefix(importPath, l.module+"/")) && len(l.module) > len(best.module) {
			best = l
		}
	}
	return best, best.module != ""
}
