package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkImports compares what packages import of ours with the import table.
func checkImports(m *module) []finding {
	var found []finding
	missing := make(map[string]bool)
	for _, f := range m.files {
		if f.test {
			continue
		}
		row, ok := roomOf(f.folder)
		if !ok {
			if !missing[f.folder] {
				found = append(found, finding{path: f.folder, message: "is not in the import table: add a row to the import table (rooms.go)"})
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
				"imports %s, which %s may not: take what is needed through a port, or move the code to a room that may (rooms.go)",
				spoken(folder), spoken(f.folder))})
		}
	}
	return found
}

func roomOf(folder string) (room, bool) {
	for _, row := range rooms() {
		if ok, _ := path.Match(row.folder, folder); ok {
			return row, true
		}
	}
	return room{}, false
}

func (r room) allows(folder string) bool {
	if r.may == anything || folder == r.folder {
		return true
	}
	if folder == redact {
		return r.folder != "."
	}
	return slices.Contains(strings.Fields(r.may), folder)
}

// folderOf returns the folder of an import path of ours, and whether it is one.
func (m *module) folderOf(importPath string) (string, bool) {
	if importPath == m.path {
		return ".", true
	}
	return strings.CutPrefix(importPath, m.path+"/")
}

// spoken returns what a message calls a folder.
func spoken(folder string) string {
	if folder == "." {
		return "the root"
	}
	return folder
}
