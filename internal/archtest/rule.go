package archtest

import (
	"fmt"
	"strings"
)

// rule is one rule of the code base.
type rule struct {
	name  string // for exceptions and tests
	check func(*module) []finding
}

// finding is one violation of a rule.
type finding struct {
	path    string // the file, or the folder for a finding about a package
	line    int    // 0: the whole file or folder
	symbol  string // the declaration, as file.symbol names it; empty: none
	message string // what is wrong, then what to do
}

// String returns the finding in the format of compilers.
func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.message
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message)
}

// rules returns all rules.
func rules() []rule {
	return []rule{
		{"imports", checkImports},
		{"libraries", checkLibraries},
		{"file-size", checkFileSize},
		{"function-size", checkFunctionSize},
		{"interface-size", checkInterfaceSize},
		{"interface-total", checkInterfaceTotal},
		{"struct-total", checkStructTotal},
		{"config-fields", checkConfigFields},
		{"package-size", checkPackageSize},
		{"parameters", checkParameters},
		{"package-comment", checkPackageComment},
		{"reading-order", checkReadingOrder},
		{"docs", checkDocs},
		{"names", checkNames},
		{"words", checkWords},
		{"flags", checkFlags},
		{"comment-width", checkCommentWidth},
		{"codes", checkCodes},
		{"init", checkInit},
		{"pure-root", checkPureRoot},
		{"sleep", checkSleep},
		{"sql", checkSQL},
		{"dial", checkDial},
		{"json", checkJSON},
	}
}

// exception excludes one place from one rule.
type exception struct {
	rule   string
	where  string // a file, a folder with a trailing slash, or a symbol as file.symbol names it
	reason string // one line
}

func (e exception) covers(rule string, f finding) bool {
	if e.rule != rule {
		return false
	}
	below := strings.HasSuffix(e.where, "/") && strings.HasPrefix(f.path+"/", e.where)
	return below || e.where == f.path || e.where == f.symbol
}

// applyExceptions removes the findings that an exception covers. It also returns the exceptions of
// that rule that cover none, because they are no longer needed.
func applyExceptions(rule string, found []finding, table []exception) (left []finding, idle []exception) {
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
