package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// commandFolders are the folders of programs, whose texts may name flags. internal/chaos is the
// library of one command and is used by nothing else.
const commandFolders = "cmd/ engine/temporal/cmd/ engine/temporal/internal/program/ internal/app/ internal/cli/ internal/chaos/ internal/archtest/ bench/ examples/ scripts/ tools/"

// flagWord finds a command-line flag in a text. A literal that is nothing but a flag is an argument
// for another program.
var (
	flagWord = regexp.MustCompile(`(^|[\s"(\x60])--[a-z][a-z-]+`)
	argument = regexp.MustCompile(`^["\x60]--[a-z][a-z-]*(=\S*)?["\x60]$`)
)

// checkFlags refuses texts of libraries that name a command-line flag: a program that embeds the
// library has no such flag. Tests and generated files are left out.
func checkFlags(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		if f.test || strings.HasSuffix(f.folder, "test") || ofCommand(f.folder) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if flag := flagWord.FindString(text.Value); flag != "" && !argument.MatchString(text.Value) {
				found = append(found, finding{path: f.path, line: f.line(text.Pos()), message: "names the flag " +
					strings.Trim(flag, " \n\t\"(`") + ": say what to do without it, and let internal/cli add the flag"})
			}
			return true
		})
	}
	return found
}

func ofCommand(folder string) bool {
	for prefix := range strings.FieldsSeq(commandFolders) {
		if strings.HasPrefix(folder+"/", prefix) {
			return true
		}
	}
	return false
}
