package file_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// backends are the places where files are kept.
var backends = map[string]func(t *testing.T) tool.Files{
	"folder": func(t *testing.T) tool.Files { return openDir(t, t.TempDir()) },
	"memory": func(t *testing.T) tool.Files { return inStore(t, memory.New(memory.Config{})) },
	"sqlite": func(t *testing.T) tool.Files {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return inStore(t, st)
	},
	"disabled": func(*testing.T) tool.Files { return tool.DisabledFiles{} },
}

func inStore(t *testing.T, st store.Store) tool.Files {
	t.Helper()
	const id = perdure.SessionID("session_files")
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return sessionfile.New(st, id, false)
}

// onBackends runs a law of the tools over each backend that has files.
func onBackends(t *testing.T, law func(t *testing.T, w *workbench)) {
	for name, open := range backends {
		if name == "disabled" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t, &workbench{t: t, files: open(t), tools: tool.NewRegistry(file.Tools()...)})
		})
	}
}

// What write_file took, read_file gives back, in the same encoding (FI2).
func TestToolsRoundTripContent(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, w *workbench) {
		late := strings.Repeat("a", 8192)
		for _, content := range []string{"", "words", "Grüße, 世界\r\n", "\ufeffbom", late + "\x00", "\x00", "\xff\xfe\x00", late[1:] + "\x00", "\xed\xa0\x80"} {
			text, encoding := tool.EncodeContent([]byte(content))
			given := map[string]string{"path": "/f", "content": text, "encoding": encoding}
			for range 2 { // as it is, and in base64 whatever it is
				args, err := json.Marshal(given)
				if err != nil {
					t.Fatal(err)
				}
				w.call("write_file", string(args))
				var got struct{ Content, Encoding string }
				if err := json.Unmarshal([]byte(w.call("read_file", `{"path":"/f"}`)), &got); err != nil {
					t.Fatal(err)
				}

				if got.Content != text || got.Encoding != encoding {
					t.Errorf("%.20q as %s came back as %.20q, %s", text, encoding, got.Content, got.Encoding)
				}
				given["content"], given["encoding"] = base64.StdEncoding.EncodeToString([]byte(content)), tool.EncodingBase64
			}
		}
	})
}

// A read-only file refuses each tool that changes files (FI5), and all say it in the words of TL28.
func TestToolsKeepReadOnlyFiles(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, w *workbench) {
		if err := tool.SeedFile(t.Context(), w.files, tool.InitialFile{Path: "/d/fixed", Content: "as it is", IsReadOnly: true}); err != nil {
			t.Fatal(err)
		}

		w.wantError("write_file", `{"path":"/d/fixed","content":"forged"}`, "File is read-only: /d/fixed")
		w.wantError("edit_file", `{"path":"/d/fixed","old_text":"as","new_text":"so"}`, "File is read-only: /d/fixed")
		w.wantError("delete_file", `{"path":"/d/fixed"}`, "File is read-only: /d/fixed")
		w.wantError("delete_file", `{"path":"/d","recursive":true}`, "File is read-only: /d/fixed")
		w.want("read_file", `{"path":"/d/fixed"}`, `{"path":"/d/fixed","content":"as it is","encoding":"text","size_bytes":8,"total_lines":1,"truncated":false}`)
	})
}

// grep_files finds and leaves out the same on each backend, and says what it left out (FI8).
func TestToolsSearchAlike(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, w *workbench) {
		for name, content := range map[string]string{
			"/a.go": "package a\nfunc A() {}\n", "/src/b.go": "func B() {}\n", "/src/deep/c.go": "func C() {}", "/src/deep/d.txt": "func in text",
			"/bytes": "func\x00", "/large": strings.Repeat("func\n", 110_000),
		} {
			if _, err := w.files.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content)}); err != nil {
				t.Fatal(err)
			}
		}
		const b, c, d = `{"path":"/src/b.go","line_number":1,"line":"func B() {}"}`, `{"path":"/src/deep/c.go","line_number":1,"line":"func C() {}"}`,
			`{"path":"/src/deep/d.txt","line_number":1,"line":"func in text"}`
		for glob, matches := range map[string]string{
			"/src/**": b + "," + c + "," + d, "src/*.go": b, "/src/**/*.go": b + "," + c, "*.txt": d, "**/deep/?.{go,txt}": c + "," + d, "/src/[bc].go": b, "/SRC/**": "",
		} {
			w.want("grep_files", `{"pattern":"^func","path_pattern":"`+glob+`"}`, `{"matches":[`+matches+`],"truncated":false,"skipped":[]}`)
		}
		w.want("grep_files", `{"pattern":"func [AB]"}`, `{"matches":[{"path":"/a.go","line_number":2,"line":"func A() {}"},`+b+`],"truncated":false,`+
			`"skipped":[{"path":"/bytes","reason":"not text"},{"path":"/large","reason":"larger than 512 KiB"}]}`)
	})
}

// Where files are disabled each tool says so, in the words of FI6.
func TestToolsWithDisabledFiles(t *testing.T) {
	t.Parallel()
	w := &workbench{t: t, files: backends["disabled"](t), tools: tool.NewRegistry(file.Tools()...)}
	for name, args := range map[string]string{
		"read_file": `{"path":"/a"}`, "write_file": `{"path":"/a","content":""}`, "edit_file": `{"path":"/a","old_text":"a","new_text":"b"}`,
		"list_directory": `{}`, "grep_files": `{"pattern":"a"}`, "delete_file": `{"path":"/a"}`, "stat_file": `{"path":"/a"}`,
	} {
		w.wantError(name, args, "session filesystem is disabled")
	}
}

// A file over its quota is a tool error that names used and limit (FI6).
func TestToolsNameQuotas(t *testing.T) {
	t.Parallel()
	limits := tool.FileLimits{MaxFileBytes: 10, MaxSessionBytes: 15}
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			w := &workbench{t: t, tools: tool.NewRegistry(file.Tools()...)}
			switch f := open(t).(type) {
			case *sessionfile.Files:
				w.files = f.Limit(limits)
			case *file.Dir:
				w.files = f.Limit(limits)
			default:
				return // disabled files have no quota
			}
			w.call("write_file", `{"path":"/a","content":"0123456789"}`)

			w.wantError("write_file", `{"path":"/b","content":"0123456789"}`,
				"No room for /b: the session's files use 10 bytes, it would add 10, the limit is 15. Delete files that are not needed.")
			w.wantError("edit_file", `{"path":"/a","old_text":"9","new_text":"9a"}`, "File too large: /a has 11 bytes, the limit is 10.")
		})
	}
}
