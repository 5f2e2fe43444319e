package file_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// workbench is the set over a fresh folder.
type workbench struct {
	t     *testing.T
	files tool.Files
	dir   *file.Dir // the files, where they are a folder
	tools *tool.Registry
}

func newWorkbench(t *testing.T, contents map[string]string) *workbench {
	t.Helper()
	w := &workbench{t: t, dir: openDir(t, t.TempDir()), tools: tool.NewRegistry(file.Tools()...)}
	w.files = w.dir
	if err := w.tools.Err(); err != nil {
		t.Fatal(err)
	}
	for name, content := range contents {
		if _, err := w.dir.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content)}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// call checks and runs a call and returns the JSON that a model reads.
func (w *workbench) call(name, args string) string {
	w.t.Helper()
	return w.callWith(tool.Env{Files: w.files}, name, args)
}

func (w *workbench) callWith(env tool.Env, name, args string) string {
	w.t.Helper()
	results, err := w.tools.ExecuteAll(w.t.Context(), []tool.Call{{Tool: name, Args: json.RawMessage(args)}}, env)
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := results[0].Record("call_1")
	if err != nil {
		w.t.Errorf("internal: %v", err)
	}
	return string(record.Result)
}

func (w *workbench) want(name, args, want string) {
	w.t.Helper()
	if got := w.call(name, args); got != want {
		w.t.Errorf("%s %s\ngot  %s\nwant %s", name, args, got, want)
	}
}

func (w *workbench) wantError(name, args, text string) {
	w.t.Helper()
	body, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		w.t.Fatal(err)
	}
	w.want(name, args, string(body))
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&long, "%d\n", i+1)
	}
	w := newWorkbench(t, map[string]string{
		"/a.txt": "one\ntwo\r\nthree", "/empty": "", "/bytes": "\x00\xff", "/long": long.String(), "/end": "one\n", "/d/x": "1",
	})

	w.want("read_file", `{"path":"/a.txt"}`, `{"path":"/a.txt","content":"one\ntwo\r\nthree","encoding":"text","size_bytes":14,"total_lines":3,"truncated":false}`)
	w.want("read_file", `{"path":"/a.txt","offset":2,"limit":1}`, `{"path":"/a.txt","content":"two\r\n","encoding":"text","size_bytes":14,"total_lines":3,"truncated":true,"next_offset":3}`)
	w.want("read_file", `{"path":"/a.txt","offset":9}`, `{"path":"/a.txt","content":"","encoding":"text","size_bytes":14,"total_lines":3,"truncated":false}`)
	w.want("read_file", `{"path":"/empty"}`, `{"path":"/empty","content":"","encoding":"text","size_bytes":0,"total_lines":0,"truncated":false}`)
	w.want("read_file", `{"path":"/end"}`, `{"path":"/end","content":"one\n","encoding":"text","size_bytes":4,"total_lines":1,"truncated":false}`)
	w.want("read_file", `{"path":"/bytes"}`, `{"path":"/bytes","content":"AP8=","encoding":"base64","size_bytes":2,"total_lines":0,"truncated":false}`)
	if got := w.call("read_file", `{"path":"/long"}`); !strings.HasSuffix(got, `"total_lines":2500,"truncated":true,"next_offset":2001}`) {
		t.Errorf("got …%s", got[len(got)-80:])
	}
	w.wantError("read_file", `{"path":"/missing"}`, "File not found: /missing")
	w.wantError("read_file", `{"path":"/d"}`, "Is a directory: /d")
	w.wantError("read_file", `{"path":"d"}`, "Invalid path d: it must be absolute and start with /")
	w.wantError("read_file", `{"path":"/a.txt","offset":0}`, "Invalid arguments for read_file: /offset: got 0, want at least 1")
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{"/d/x": "1"})
	if err := w.dir.Seed(t.Context(), tool.InitialFile{Path: "/fixed", Content: "as it is", IsReadOnly: true}); err != nil {
		t.Fatal(err)
	}

	w.want("write_file", `{"path":"/new/a.txt","content":"Grüße"}`, `{"path":"/new/a.txt","size_bytes":7,"created":true}`)
	w.want("write_file", `{"path":"/new/a.txt","content":""}`, `{"path":"/new/a.txt","size_bytes":0,"created":false}`)
	w.want("write_file", `{"path":"/b","content":"AP8=","encoding":"base64"}`, `{"path":"/b","size_bytes":2,"created":true}`)
	w.want("read_file", `{"path":"/b"}`, `{"path":"/b","content":"AP8=","encoding":"base64","size_bytes":2,"total_lines":0,"truncated":false}`)
	w.wantError("write_file", `{"path":"/b","content":"#","encoding":"base64"}`, "The content is not base64. Write it as base64, or set encoding to text.")
	w.wantError("write_file", `{"path":"/d","content":""}`, "Is a directory: /d")
	w.wantError("write_file", `{"path":"/d/x/y","content":""}`, "path exists but is not a directory: /d/x")
	w.wantError("write_file", `{"path":"/fixed","content":""}`, "File is read-only: /fixed")
	w.wantError("write_file", `{"path":"/.background/bg_1/result.json","content":""}`, "File is read-only: /.background/bg_1/result.json")
	w.wantError("write_file", `{"path":"/x"}`, "Invalid arguments for write_file: /content: is required")
}

func TestEditFile(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{"/a": "one two one\n"})

	w.wantError("edit_file", `{"path":"/a","old_text":"three","new_text":"3"}`, "old_text not found in /a")
	w.wantError("edit_file", `{"path":"/a","old_text":"one","new_text":"1"}`, "old_text occurs 2 times in /a. Add context or set replace_all.")
	w.want("edit_file", `{"path":"/a","old_text":"two","new_text":""}`, `{"path":"/a","replacements":1}`)
	w.want("edit_file", `{"path":"/a","old_text":"one","new_text":"1","replace_all":true}`, `{"path":"/a","replacements":2}`)
	w.want("read_file", `{"path":"/a"}`, `{"path":"/a","content":"1  1\n","encoding":"text","size_bytes":5,"total_lines":1,"truncated":false}`)
	w.wantError("edit_file", `{"path":"/missing","old_text":"a","new_text":"b"}`, "File not found: /missing")
	w.wantError("edit_file", `{"path":"/a","old_text":"","new_text":"b"}`, "Invalid arguments for edit_file: /old_text: got 0 characters, want at least 1")
}

// meddler changes a file between the read and the write of an edit.
type meddler struct {
	tool.Files
	content string
}

func (m meddler) Write(ctx context.Context, w tool.FileWrite) (bool, error) {
	if _, err := m.Files.Write(ctx, tool.FileWrite{Path: w.Path, Content: []byte(m.content)}); err != nil {
		return false, err
	}
	return m.Files.Write(ctx, w)
}

func TestEditFileComparesAndSets(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{"/a": "one"})

	got := w.callWith(tool.Env{Files: meddler{w.dir, "one, and more"}}, "edit_file", `{"path":"/a","old_text":"one","new_text":"1"}`)

	if want := `{"error":"File changed since it was read: /a. Read it again."}`; got != want {
		t.Errorf("got %s", got)
	}
	w.want("stat_file", `{"path":"/missing"}`, `{"error":"File not found: /missing"}`)
}

func TestEditFileReconciles(t *testing.T) {
	t.Parallel()
	const (
		happened = "happened"
		not      = "did not happen"
		unknown  = "cannot tell"
	)
	for _, test := range []struct{ name, content, oldText, newText, want string }{
		{"written", "a NEW b", "OLD", "NEW", happened},
		{"not written", "a OLD b", "OLD", "NEW", not},
		{"written, and the new text holds the old one", "a OLD+ b", "OLD", "OLD+", happened},
		{"not written, and the new text holds the old one", "a OLD b", "OLD", "OLD+", not},
		{"both are there", "NEW OLD", "OLD", "NEW", unknown},
		{"neither is there", "something else", "OLD", "NEW", unknown},
		{"text was deleted", "a  b", "OLD", "", unknown},
		{"nothing was to change", "a OLD b", "OLD", "OLD", unknown},
		{"the file is gone", "", "OLD", "NEW", unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkbench(t, nil)
			if test.content != "" {
				w = newWorkbench(t, map[string]string{"/a": test.content})
			}
			edit, _ := w.tools.Get("edit_file")
			args, err := json.Marshal(map[string]string{"path": "/a", "old_text": test.oldText, "new_text": test.newText})
			if err != nil {
				t.Fatal(err)
			}

			got, err := edit.(tool.Reconciler).Reconcile(t.Context(), tool.Call{Tool: "edit_file", Args: args}, tool.Env{Files: w.dir})

			said := unknown
			switch {
			case got.Happened:
				said = happened
			case got.DidNotHappen:
				said = not
			}
			if said != test.want || err != nil {
				t.Errorf("got %s, %v; want %s", said, err, test.want)
			}
			if got.Happened {
				record, _ := got.Result.Record("call_1")
				if string(record.Result) != `{"path":"/a","replacements":1}` {
					t.Errorf("got %s", record.Result)
				}
			}
		})
	}
}

func TestDirectoriesAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{"/d/b": "22", "/d/a/x": "1"})
	if _, err := w.dir.MakeDirectory(t.Context(), "/none"); err != nil {
		t.Fatal(err)
	}

	w.want("list_directory", `{"path":"/none"}`, `{"path":"/none","entries":[]}`)
	w.wantError("list_directory", `{"path":"/missing"}`, "Directory not found: /missing")
	var listed struct {
		Path    string
		Entries []map[string]any
	}
	for args, want := range map[string]string{`{}`: "/ d none", `{"path":"/d/"}`: "/d a b"} {
		if err := json.Unmarshal([]byte(w.call("list_directory", args)), &listed); err != nil {
			t.Fatal(err)
		}
		names := listed.Path
		for _, e := range listed.Entries {
			names += " " + e["name"].(string)
		}
		if names != want {
			t.Errorf("%s: got %s", args, names)
		}
	}
	if b := listed.Entries[len(listed.Entries)-1]; len(b) != 6 || b["updated_at"] == "" {
		t.Errorf("got %v", b)
	}

	w.wantError("delete_file", `{"path":"/d"}`, "Directory not empty: /d. Set recursive to true.")
	w.want("delete_file", `{"path":"/d/b"}`, `{"path":"/d/b","deleted":true}`)
	w.want("delete_file", `{"path":"/d/b"}`, `{"path":"/d/b","deleted":false}`)
	w.want("delete_file", `{"path":"/d","recursive":true}`, `{"path":"/d","deleted":true}`)
	w.wantError("delete_file", `{"path":"/","recursive":true}`, "The root directory cannot be deleted.")
}

func TestStatFile(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, map[string]string{"/d/b": "22"})
	var got map[string]any

	if err := json.Unmarshal([]byte(w.call("stat_file", `{"path":"/d/b"}`)), &got); err != nil {
		t.Fatal(err)
	}

	if len(got) != 7 || got["path"] != "/d/b" || got["name"] != "b" || got["is_directory"] != false || got["is_readonly"] != false ||
		got["size_bytes"] != 2.0 || got["created_at"] == "" || got["updated_at"] == "" {
		t.Errorf("got %v", got)
	}
}

func TestMissingFileStore(t *testing.T) {
	t.Parallel()
	w := newWorkbench(t, nil)
	for name, args := range map[string]string{
		"read_file": `{"path":"/a"}`, "write_file": `{"path":"/a","content":""}`, "edit_file": `{"path":"/a","old_text":"a","new_text":"b"}`,
		"list_directory": `{}`, "grep_files": `{"pattern":"a"}`, "delete_file": `{"path":"/a"}`, "stat_file": `{"path":"/a"}`,
	} {
		want := `{"error":"Session file store not available in this context. ` + name + ` requires the files of a session."}`
		if got := w.callWith(tool.Env{}, name, args); got != want {
			t.Errorf("got %s", got)
		}
	}
}

// broken is a store with a failing disk.
type broken struct{ tool.Files }

func (broken) Read(context.Context, string) (tool.File, error) {
	return tool.File{}, errors.New("read /srv/secret/place: input/output error")
}

func TestStoreErrorsAreInternal(t *testing.T) {
	t.Parallel()

	record, logged := file.ReadFile().Run(t.Context(), tool.Call{Args: []byte(`{"path":"/a"}`)}, tool.Env{Files: broken{}}).Record("call_1")

	if record.Error != perdure.GenericToolError || logged == nil || !strings.Contains(logged.Error(), "input/output error") {
		t.Errorf("got %+v, %v", record, logged)
	}
}
