//go:build contact

package contact

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// tableVariable names the file for the table of what each program needed.
const tableVariable = "PERDURE_CONTACT_TABLE"

// row is what was seen of one program. The empty field was not reached.
type row struct {
	program, version string
	protocol, tools  string
	kinds, quirks    string
	called           string
	killed, died     string // kill -9 of the proxy, and of the server
}

// table has the rows of all tests.
var table struct {
	mu   sync.Mutex
	rows []*row // guarded by mu
}

// newRow adds a row, which its test fills.
func newRow(program, version string) *row {
	table.mu.Lock()
	defer table.mu.Unlock()
	r := &row{program: program, version: version}
	table.rows = append(table.rows, r)
	return r
}

// writeTable writes the rows to the file that the script prints.
func writeTable() error {
	path := os.Getenv(tableVariable)
	table.mu.Lock()
	defer table.mu.Unlock()
	if path == "" || len(table.rows) == 0 {
		return nil
	}
	slices.SortFunc(table.rows, func(a, b *row) int { return cmp.Compare(a.program, b.program) })
	var text strings.Builder
	for _, r := range table.rows {
		fmt.Fprintf(&text, "%s %s\n", r.program, r.version)
		for _, field := range []struct{ name, value string }{
			{"protocol", r.protocol}, {"tools", r.tools}, {"results", r.kinds}, {"seen", r.quirks}, {"calls", r.called},
			{"proxy -9", r.killed}, {"server -9", r.died},
		} {
			fmt.Fprintf(&text, "  %-9s %s\n", field.name, cmp.Or(field.value, "not reached"))
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
