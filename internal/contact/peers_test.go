//go:build contact

package contact

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
)

// peer is an MCP server of somebody else, and calls of its tools.
type peer struct {
	name   string // in mcp.json
	module string // npm package
	script string // of the package
	args   func(*home) []string
	env    func(*home) map[string]string
	calls  func(*home) []expected
}

// expected is a call with its result. The last call of a peer is the one during which the proxy is
// killed.
type expected struct {
	tool    string
	args    map[string]any
	text    string // in the result
	picture string // media type of a picture in the result; empty: there is none
}

// onePixel is a picture.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// peers are servers that need no network and no key.
func peers() []peer { return append(referencePeers(), otherPeers()...) }

// referencePeers are those of the protocol's own project.
func referencePeers() []peer {
	return []peer{
		{name: "files", module: "@modelcontextprotocol/server-filesystem", script: "dist/index.js",
			args: func(h *home) []string { return []string{h.work} },
			calls: func(h *home) []expected {
				pixel, _ := base64.StdEncoding.DecodeString(onePixel) // a constant
				h.write("pixel.png", string(pixel))
				h.write("a", "x")
				note := filepath.Join(h.work, "note.txt")
				return []expected{
					{tool: "write_file", args: map[string]any{"path": note, "content": "Grüße 🙂\n"}, text: "Successfully wrote"},
					{tool: "read_text_file", args: map[string]any{"path": note}, text: "Grüße 🙂"},
					{tool: "read_media_file", args: map[string]any{"path": filepath.Join(h.work, "pixel.png")}, picture: "image/png"},
					{tool: "read_text_file", args: map[string]any{"path": "/etc/passwd"}, text: "Access denied"},
					// a second move of the same file would fail
					{tool: "move_file", args: map[string]any{"source": filepath.Join(h.work, "a"), "destination": filepath.Join(h.work, "b")}, text: "Successfully moved"},
				}
			}},
		{name: "everything", module: "@modelcontextprotocol/server-everything", script: "dist/index.js",
			args: func(*home) []string { return []string{"stdio"} },
			calls: func(*home) []expected {
				return []expected{
					{tool: "echo", args: map[string]any{"message": "hello"}, text: "Echo: hello"},
					{tool: "get-sum", args: map[string]any{"a": 2, "b": 40}, text: "42"},
					{tool: "get-structured-content", args: map[string]any{"location": "Chicago"}, text: "temperature"},
					{tool: "get-tiny-image", args: map[string]any{}, picture: "image/png"},
					{tool: "trigger-long-running-operation", args: map[string]any{"duration": 1, "steps": 2}, text: "Long running operation completed"},
				}
			}},
		{name: "memory", module: "@modelcontextprotocol/server-memory", script: "dist/index.js",
			env: func(h *home) map[string]string {
				return map[string]string{"MEMORY_FILE_PATH": filepath.Join(h.work, "memory.jsonl")}
			},
			calls: func(*home) []expected {
				entity := func(name string) map[string]any {
					return map[string]any{"entities": []any{map[string]any{"name": name, "entityType": "place", "observations": []any{"it is there"}}}}
				}
				return []expected{
					{tool: "create_entities", args: entity("Görlitz"), text: "Görlitz"},
					{tool: "read_graph", args: map[string]any{}, text: "it is there"},
					{tool: "create_entities", args: entity("Zittau"), text: "Zittau"},
				}
			}},
		{name: "thinking", module: "@modelcontextprotocol/server-sequential-thinking", script: "dist/index.js",
			calls: func(*home) []expected {
				thought := func(n int) map[string]any {
					return map[string]any{"thought": "One after the other.", "nextThoughtNeeded": n < 2, "thoughtNumber": n, "totalThoughts": 2}
				}
				return []expected{
					{tool: "sequentialthinking", args: thought(1), text: "thoughtHistoryLength"},
					{tool: "sequentialthinking", args: thought(2), text: "thoughtHistoryLength"},
				}
			}},
	}
}

// otherPeers are those of other authors.
func otherPeers() []peer {
	return []peer{
		{name: "git", module: "@cyanheads/git-mcp-server", script: "dist/index.js",
			env: func(h *home) map[string]string {
				return map[string]string{"MCP_TRANSPORT_TYPE": "stdio", "LOGS_DIR": h.dir, "GIT_SIGN_COMMITS": "false"}
			},
			calls: func(h *home) []expected {
				h.write("note.txt", "a note\n")
				return []expected{
					{tool: "git_init", args: map[string]any{"path": h.work, "initialBranch": "main"}, text: "main"},
					{tool: "git_status", args: map[string]any{"path": h.work}, text: "note.txt"},
					{tool: "git_add", args: map[string]any{"path": h.work, "paths": []any{"note.txt"}}, text: "note.txt"},
				}
			}},
		{name: "eslint", module: "@eslint/mcp", script: "src/mcp-cli.js",
			calls: func(h *home) []expected {
				h.write("eslint.config.mjs", "export default [{rules: {\"no-var\": \"error\"}}]\n")
				lint := func(name string) expected {
					return expected{tool: "lint-files", args: map[string]any{"filePaths": []any{h.write(name, "var a = 1\n")}}, text: "no-var"}
				}
				return []expected{lint("old.js"), lint("older.js")}
			}},
		{name: "time", module: "time-mcp", script: "dist/index.js",
			calls: func(*home) []expected {
				return []expected{
					{tool: "days_in_month", args: map[string]any{"date": "2028-02-10"}, text: "29"},
					{tool: "convert_time", args: map[string]any{"sourceTimezone": "Europe/Berlin", "targetTimezone": "Asia/Tokyo", "time": "2026-01-02 03:00:00"}, text: "11:00"},
				}
			}},
		{name: "runner", module: "mcp-server-code-runner", script: "dist/cli.js",
			calls: func(h *home) []expected {
				code := "require('fs').appendFileSync('" + filepath.Join(h.work, "ran") + "', 'once\\n'); console.log(6 * 7)"
				return []expected{
					{tool: "run-code", args: map[string]any{"code": "console.log('from ' + 'afar')", "languageId": "javascript"}, text: "from afar"},
					{tool: "run-code", args: map[string]any{"code": code, "languageId": "javascript"}, text: "42"},
				}
			}},
	}
}

// command returns the command of a peer.
func (p peer) command(t *testing.T, h *home) []string {
	t.Helper()
	folder, _ := module(t, p.module)
	words := []string{nodeProgram(t), filepath.Join(folder, p.script)}
	if p.args != nil {
		words = append(words, p.args(h)...)
	}
	return words
}

// environment returns the variables of a peer, in addition to ours.
func (p peer) environment(h *home, more map[string]string) map[string]string {
	all := map[string]string{}
	if p.env != nil {
		all = p.env(h)
	}
	for name, value := range more {
		all[name] = value
	}
	return all
}

// modelName returns the name by which a model calls a tool of a peer.
func (p peer) modelName(tool string) string { return p.name + "__" + cleanName(tool) }

// label returns the name of a test for a call.
func (e expected) label() string { return strings.NewReplacer("/", "_", " ", "_").Replace(e.tool) }
