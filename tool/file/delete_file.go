package file

import (
	"context"
	_ "embed" // the text that the model reads

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed delete_file.md
var deleteFileText string

type deleteFileIn struct {
	Path      string `json:"path" jsonschema:"Absolute path of a file or directory."`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"Delete a directory and everything in it."`
}

type deleteFileOut struct {
	Path    string `json:"path"`
	Deleted bool   `json:"deleted" jsonschema:"False if the path did not exist."`
}

// DeleteFile returns the tool that deletes a file or directory.
func DeleteFile() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "delete_file",
		DisplayName: "Delete File",
		Narration:   tool.Narration{Started: "Deleting {path}", Completed: "Deleted {path}", Failed: "Could not delete {path}"},
		Description: described(deleteFileText),
		Class:       perdure.Idempotent,
		Trusted:     true,
		Concurrency: workspace,
		Hints:       tool.Hints{Idempotent: ptrTrue(), Destructive: ptrTrue(), OpenWorld: new(bool)},
	}, deleteFile)
}

func deleteFile(ctx context.Context, in deleteFileIn, env tool.Env) (deleteFileOut, error) {
	store, err := files(env, "delete_file")
	if err != nil {
		return deleteFileOut{}, err
	}
	path, err := tool.CleanPath(in.Path)
	if err != nil {
		return deleteFileOut{}, err
	}
	deleted, err := store.Remove(ctx, path, in.Recursive)
	return deleteFileOut{Path: path, Deleted: deleted}, err
}
