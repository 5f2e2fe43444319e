package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/tool/defaults"
)

// portColumns are the columns of the tables of ports.md that say how each method is reached.
var portColumns = []string{"method", "Go", "CLI", "HTTP", "MCP", "document", "test"}

// inCode matches a piece of code in a cell.
var inCode = regexp.MustCompile("`([^`]+)`")

// TestPortRows checks the rows of ports.md that say how each method of a port is reached: no cell
// is empty, and what the cells name exists.
func TestPortRows(t *testing.T) {
	t.Parallel()
	rows := portRows(t)
	if len(rows) < 100 {
		t.Fatalf("ports.md has %d rows of methods", len(rows))
	}
	checks := []func(cell string) []string{
		methodFaults, codeFaults(t), commandFaults(t), requestFaults(t), clientFaults(t), pageFaults, testFaults,
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row[0]] {
			t.Errorf("%s: there are two such rows", row[0])
		}
		seen[row[0]] = true
		for i, cell := range row {
			if words := strings.Fields(cell); len(words) == 0 || words[0] == "no:" && len(words) < 4 {
				t.Errorf("%s: the column %s has nothing, and no reason", row[0], portColumns[i])
			}
			for _, fault := range checks[i](cell) {
				t.Errorf("%s: the column %s names %s", row[0], portColumns[i], fault)
			}
		}
	}
}

// TestPortRowsAreChecked: what is wrong in a row is seen.
func TestPortRowsAreChecked(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]struct {
		faults       func(string) []string
		right, wrong []string
	}{
		"method": {methodFaults, []string{"read a file"}, []string{"`read_file`", "read_file"}},
		"Go": {codeFaults(t), []string{"`tool.Files.Read`", "`engine.Tasks.Cancel`", "`local.Limits.EvictCap`", "`tool.New`", "by the runtime"},
			[]string{"`tool.Files.Rea`", "`tool.Nothing`", "`local.Limits.Nothing`", "`files.Read`", "`Read`"}},
		"CLI": {commandFaults(t), []string{"`file cat`", "`run --model`", "`limits.max-wait`", "no: `any` is Go code"},
			[]string{"`file dog`", "`run --nothing`", "`limits.nothing`"}},
		"HTTP": {requestFaults(t), []string{"`GET /v1/sessions/{session}`", "field `limits`"}, []string{"`GET /v1/nothing`", "`PATCH /v1/tools`"}},
		"MCP": {clientFaults(t), []string{"`tools/call`", "tool `read_file`", "`mcp serve --tool`", "tool `task_status`", "tool `ask_NAME`"},
			[]string{"`tools/nothing`", "tool `no_such_tool`", "`mcp serve --nothing`"}},
		"document": {pageFaults, []string{"[files](files.md)"}, []string{"files", "`files.md`"}},
		"test":     {testFaults, []string{"`TestPortRows`"}, []string{"tests", "`storetest`"}},
	} {
		for _, cell := range check.right {
			if faults := check.faults(cell); len(faults) > 0 {
				t.Errorf("%s: %q has faults: %q", name, cell, faults)
			}
		}
		for _, cell := range check.wrong {
			if len(check.faults(cell)) == 0 {
				t.Errorf("%s: %q has no fault", name, cell)
			}
		}
	}
}

// portRows returns the rows of the tables with portColumns.
func portRows(t *testing.T) (rows [][]string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(read(t, "docs/reference/ports.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case slices.Equal(cells, portColumns):
			inside = true
		case inside && len(cells) != len(portColumns):
			t.Errorf("this row has %d cells: %s", len(cells), line)
		case inside && !strings.HasPrefix(cells[0], "-"):
			rows = append(rows, cells)
		}
	}
	return rows
}

// codesOf returns the pieces of code of a cell.
func codesOf(cell string) (all []string) {
	for _, found := range inCode.FindAllStringSubmatch(cell, -1) {
		all = append(all, found[1])
	}
	return all
}

// methodFaults: a method is described in words, so that a reader need not know a name to find it.
func methodFaults(cell string) []string {
	if strings.ContainsAny(cell, "`_") {
		return []string{"a name instead of words"}
	}
	return nil
}

// codeFaults finds the names of Go that no public package declares.
func codeFaults(t *testing.T) func(cell string) []string {
	t.Helper()
	code := newPublicCode(t)
	return func(cell string) (faults []string) {
		for _, name := range codesOf(cell) {
			plain := regexp.MustCompile(`^[a-z]+\.[A-Z]`).MatchString(name)
			switch {
			case plain && !code.declares(t, name):
				faults = append(faults, name+", which is not declared")
			case !plain && regexp.MustCompile(`^\w*\.?[A-Z]\w*$`).MatchString(name):
				faults = append(faults, name+" without its package")
			}
		}
		return faults
	}
}

// commandFaults finds commands, flags and settings that do not exist.
func commandFaults(t *testing.T) func(cell string) []string {
	t.Helper()
	commands, settings := commandHelp(t), read(t, "docs/reference/configuration.md")
	return func(cell string) (faults []string) {
		if strings.HasPrefix(cell, "no:") {
			return nil // a reason may name anything
		}
		for _, words := range codesOf(cell) {
			if limit, is := strings.CutPrefix(words, "limits."); is {
				if !strings.Contains(settings, "| `"+limit+"` |") {
					faults = append(faults, words+", which is no setting")
				}
				continue
			}
			help, known := commands[commandOf(words, commands)]
			if !known {
				faults = append(faults, words+", which is no command")
			}
			for _, flag := range regexp.MustCompile(` (--?[a-z][a-z-]*)`).FindAllStringSubmatch(words, -1) {
				if known && !hasFlag(help, flag[1]) {
					faults = append(faults, words+", which is no flag of the command")
				}
			}
		}
		return faults
	}
}

// requestFaults finds requests that the HTTP API does not have.
func requestFaults(t *testing.T) func(cell string) []string {
	t.Helper()
	known := operations(t)
	return func(cell string) (faults []string) {
		for _, request := range codesOf(cell) {
			if _, route, is := strings.Cut(request, " "); !is || !strings.HasPrefix(route, "/") {
				continue // a header, a field or a frame
			}
			if !slices.Contains(known, regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(request, "{}")) {
				faults = append(faults, request+", which is no request")
			}
		}
		return faults
	}
}

// clientFaults finds tools, methods of the protocol and commands that an MCP client does not reach.
func clientFaults(t *testing.T) func(cell string) []string {
	t.Helper()
	registry, err := defaults.Registry(defaults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server, commands := sources(t, "/mcpserver/", "/mcptool/"), commandFaults(t)
	return func(cell string) (faults []string) {
		for _, words := range codesOf(cell) {
			switch {
			case strings.HasPrefix(words, "mcp "):
				faults = append(faults, commands("`"+words+"`")...)
			case regexp.MustCompile(`^[a-z]+/[a-z/]+$`).MatchString(words) && !strings.Contains(server, words):
				faults = append(faults, words+", which is no method")
			}
		}
		for _, found := range regexp.MustCompile("tools? `([^`]+)`").FindAllStringSubmatch(cell, -1) {
			name, _, family := strings.Cut(found[1], "NAME")
			ofServer := strings.Contains(server, `"`+name+`"`) || family && strings.Contains(server, `"`+name)
			if !registry.Has(name) && !ofServer {
				faults = append(faults, found[1]+", which is no tool")
			}
		}
		return faults
	}
}

// pageFaults: the page is a link; TestLinks follows it.
func pageFaults(cell string) []string {
	if !strings.Contains(cell, "](") {
		return []string{"no page"}
	}
	return nil
}

// testFaults: at least one test is named; TestPortsArePinned looks for them.
func testFaults(cell string) (faults []string) {
	names := codesOf(cell)
	for _, name := range names {
		if !pinned.MatchString("`" + name + "`") {
			faults = append(faults, name+", which is no name of a test")
		}
	}
	if len(names) == 0 {
		faults = append(faults, "no test")
	}
	return faults
}

// TestPortsAreReached: each method of the ports of a tool, and of the engine, is in a row.
func TestPortsAreReached(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, row := range portRows(t) {
		for _, name := range codesOf(row[1]) {
			named[name] = true
		}
	}
	code := newPublicCode(t)
	tools, engines := code.read(t, "tool"), code.read(t, "engine")
	var all []string
	for _, of := range []string{"Env", "Ports"} {
		for _, port := range tools.types(of) {
			all = append(all, tools.methods("tool", port)...)
		}
	}
	for _, accessor := range engines.types("Engine") {
		all = append(all, engines.methods("engine", accessor)...)
	}
	for member, kind := range engines.all("Engine") {
		if !engines.interfaces[kind] {
			all = append(all, "engine.Engine."+member)
		}
	}
	if len(all) < 150 {
		t.Fatalf("the ports have %d methods", len(all))
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if !named[name] {
			t.Errorf("no row of ports.md names %s: say how people reach it", name)
		}
	}
}
