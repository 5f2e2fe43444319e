package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkImports compares the imports between our packages with the import table.
func checkImports(m *module) []finding {
	var found []finding
	missing := make(map[string]bool)
	for _, f := range m.files {
		if f.test {
			continue
		}
		row, ok := importRowOf(f.folder)
		if !ok {
			if !missing[f.folder] {
				found = append(found,
					finding{path: f.folder, message: "is not in the import table: add a row to it (importtable.go)"})
			}
			missing[f.folder] = true
			continue
		}
		for _, spec := range f.syntax.Imports {
			folder, ours := m.folderOf(importPath(spec))
			if !ours || row.allows(folder) {
				continue
			}
			found = append(found, finding{path: f.path, line: f.line(spec.Pos()), message: fmt.Sprintf(
				"imports %s, which %s must not: use a port, or move the code to a package that may (importtable.go)",
				displayName(folder), displayName(f.folder))})
		}
	}
	return found
}

func importRowOf(folder string) (importRow, bool) {
	for _, row := range importTable() {
		if ok, _ := path.Match(row.folder, folder); ok {
			return row, true
		}
	}
	return importRow{}, false
}

func (r importRow) allows(folder string) bool {
	if r.imports == anything || folder == r.folder {
		return true
	}
	if folder == redact {
		return r.folder != "." && !isRootLeaf(r.folder)
	}
	return slices.Contains(strings.Fields(r.imports), folder)
}

// isRootLeaf reports whether the root may import the package of a folder.
func isRootLeaf(folder string) bool { return slices.Contains(strings.Fields(rootLeaves), folder) }

// folderOf returns the folder of an import path, and whether it is in this module.
func (m *module) folderOf(importPath string) (string, bool) {
	if importPath == m.path {
		return ".", true
	}
	return strings.CutPrefix(importPath, m.path+"/")
}

// displayName returns the name of a folder for a message.
func displayName(folder string) string {
	if folder == "." {
		return "the root"
	}
	return folder
}
