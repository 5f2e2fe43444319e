package mcptool

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxName is the length of a tool's name.
const maxName = 64

// namedTool is a tool of a server with the name that it has here.
type namedTool struct {
	def  *mcp.Tool
	name string
}

// named gives each tool of a server a name of its own after prefix. A tool keeps its name if all
// its characters are valid; others are replaced. The name gets a digest in addition if it would be
// too long, if replacing leaves no letter of it, or if several tools would share it and it is not
// the own name of this one. So a name depends on the server's tools and not on their order, and a
// call in the journal finds its tool again. Of two tools with one name at the server, which a call
// could not tell apart, the first is taken.
func named(defs []*mcp.Tool, prefix string, log *slog.Logger) []namedTool {
	var all []namedTool
	first := map[string]*mcp.Tool{}
	claims := map[string]int{} // how many tools would have a name
	for _, def := range defs {
		if other := first[def.Name]; other != nil {
			if !reflect.DeepEqual(other, def) {
				log.Warn("MCP tool left out: the server lists another tool of this name before it", "tool", def.Name)
			}
			continue
		}
		first[def.Name] = def
		clean := strings.Map(safeRune, def.Name)
		claims[clean]++
		all = append(all, namedTool{def: def, name: clean})
	}
	for i, t := range all {
		shared := claims[t.name] > 1 && t.name != t.def.Name
		if shared && !emptied(t.def.Name) {
			log.Warn("MCP tool renamed: several tools of the server would have one name", "tool", t.def.Name,
				"name", withDigest(prefix+t.name, t.def.Name))
		}
		switch {
		case emptied(t.def.Name):
			all[i].name = withDigest(prefix+"tool", t.def.Name)
		case shared:
			all[i].name = withDigest(prefix+t.name, t.def.Name)
		default:
			all[i].name = fitting(prefix + t.name)
		}
	}
	return unique(all, log)
}

// unique leaves out a tool whose name another one has, which only a name made for it can do.
func unique(all []namedTool, log *slog.Logger) []namedTool {
	used := map[string]bool{}
	return slices.DeleteFunc(all, func(t namedTool) bool {
		if used[t.name] {
			log.Warn("MCP tool left out: another tool of the server has its name", "tool", t.def.Name, "name", t.name)
			return true
		}
		used[t.name] = true
		return false
	})
}

// emptied reports whether replacing characters leaves no letter and no digit of a name.
func emptied(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return safeRune(r) == r && r != '_' && r != '-' }) &&
		strings.ContainsFunc(name, func(r rune) bool { return safeRune(r) != r })
}

// fitting cuts a name that is too long and adds a digest of it.
func fitting(name string) string {
	if len(name) <= maxName {
		return name
	}
	return withDigest(name, name)
}

// withDigest adds a digest of a text to a name, which is cut to make room for it.
func withDigest(name, of string) string {
	sum := sha256.Sum256([]byte(of))
	return name[:min(len(name), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}

// safeName converts a name to a valid one.
func safeName(name string) string {
	name = strings.Map(safeRune, name)
	return name[:min(len(name), maxName)]
}

func safeRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}
