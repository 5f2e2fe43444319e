package file_test

import (
	"context"
	"fmt"
	"os"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

func ExampleOpenDir() {
	folder, err := os.MkdirTemp("", "session")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	files, err := file.OpenDir(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()

	tools := tool.NewRegistry(file.Tools()...)
	results, err := tools.ExecuteAll(context.Background(), []tool.Call{
		{Tool: "write_file", Args: []byte(`{"path":"/notes/today.md","content":"Buy tea.\n"}`)},
		{Tool: "edit_file", Args: []byte(`{"path":"/notes/today.md","old_text":"tea","new_text":"coffee"}`)},
		{Tool: "read_file", Args: []byte(`{"path":"/../etc/passwd"}`)},
	}, tool.Env{Files: files})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range results {
		record, _ := result.Record("call_1")
		fmt.Println(string(record.Result))
	}
	// Output:
	// {"path":"/notes/today.md","size_bytes":9,"created":true}
	// {"path":"/notes/today.md","replacements":1}
	// {"error":"Invalid path /../etc/passwd: it contains \"..\""}
}
