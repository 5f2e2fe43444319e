package archtest

import (
	"fmt"
	"strings"
)

// rule is one house rule.
type rule struct {
	name  string // as exceptions and tests call it
	check func(*module) []finding
}

// finding is one place where a rule is not kept.
type finding struct {
	path    string // the file, or the folder where it is about a package
	line    int    // 0: the whole file or folder
	symbol  string // what it is about, as file.symbol names it; empty where nothing is declared
	message string // what is wrong, then what to do
}

// String returns the finding as one line that an editor can follow.
func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.message
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message)
}

// rules returns every rule of the house.
func rules() []rule {
	return []rule{
		{"imports", checkImports},
		{"libraries", checkLibraries},
		{"file-size", checkFileSize},
		{"function-size", checkFunctionSize},
		{"interface-size", checkInterfaceSize},
		{"package-size", checkPackageSize},
		{"parameters", checkParameters},
		{"package-comment", checkPackageComment},
		{"docs", checkDocs},
		{"names", checkNames},
		{"init", checkInit},
		{"pure-root", checkPureRoot},
		{"sleep", checkSleep},
		{"sql", checkSQL},
		{"dial", checkDial},
		{"json", checkJSON},
	}
}

// exception lets one rule pass in one place.
type exception struct {
	rule   string
	where  string // a file, a folder with a slash at its end (and all below it), or a symbol as file.symbol names it
	reason string // one line
}

func (e exception) covers(rule string, f finding) bool {
	if e.rule != rule {
		return false
	}
	below := strings.HasSuffix(e.where, "/") && strings.HasPrefix(f.path+"/", e.where)
	return below || e.where == f.path || e.where == f.symbol
}

// excuse takes the findings that an exception covers out of found. It also returns the exceptions of that rule which cover
// none, since nobody needs them any more.
func excuse(rule string, found []finding, table []exception) (left []finding, idle []exception) {
	used := make(map[exception]bool)
	for _, f := range found {
		covered := false
		for _, e := range table {
			if e.covers(rule, f) {
				used[e], covered = true, true
			}
		}
		if !covered {
			left = append(left, f)
		}
	}
	for _, e := range table {
		if e.rule == rule && !used[e] {
			idle = append(idle, e)
		}
	}
	return left, idle
}
