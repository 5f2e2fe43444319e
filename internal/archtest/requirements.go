package archtest

import (
	"fmt"
	"path"
	"strings"
)

// checkLibraries compares the direct requirements of go.mod, and the packages that import them,
// with the table of libraries.
func checkLibraries(m *module) []finding {
	found := checkRequirements(m)
	for _, f := range m.files {
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			if _, ours := m.folderOf(p); ours || !foreign(p) {
				continue
			}
			if message := f.importError(p); message != "" {
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
				"requires %s directly: remove it, or add a row to libraries.go and explain in the commit what it saves",
				r.module)})
		case want != r.version:
			found = append(found, finding{path: "go.mod", line: r.line, message: fmt.Sprintf(
				"requires %s at %s, but libraries.go says %s: use that version, or read the changelog and change both",
				r.module, r.version, want)})
		}
	}
	return found
}

// foreign reports whether an import path is outside the standard library, whose paths have no dot
// in their first element.
func foreign(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}

// importError returns why the file must not import a library; empty: it may.
func (f *file) importError(importPath string) string {
	if importPath == "golang.org/x/sys" || strings.HasPrefix(importPath, "golang.org/x/sys/") {
		return "imports " + importPath + ": use syscall or os, golang.org/x/sys is never imported directly"
	}
	lib, ok := libraryOf(importPath)
	if !ok {
		return fmt.Sprintf("imports %s, which libraries.go does not list: remove it, or add a row", importPath)
	}
	for _, pattern := range strings.Fields(lib.importers) {
		if ok, _ := path.Match(pattern, f.folder); ok || pattern == tests && (f.test || f.suite()) {
			return ""
		}
	}
	return fmt.Sprintf("imports %s, which only %s may import: use it there, behind a port (libraries.go)",
		importPath, strings.Join(strings.Fields(lib.importers), ", "))
}

// libraryOf returns the library of an import path: the row with the longest matching module.
func libraryOf(importPath string) (library, bool) {
	var best library
	for _, l := range libraries() {
		if (importPath == l.module || strings.HasPrefix(importPath, l.module+"/")) && len(l.module) > len(best.module) {
			best = l
		}
	}
	return best, best.module != ""
}
