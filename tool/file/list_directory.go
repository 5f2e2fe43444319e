package file

import (
	"cmp"
	"context"
	_ "embed" // the text that the model reads
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed list_directory.md
var listDirectoryText string

type listDirectoryIn struct {
	Path string `json:"path,omitempty" default:"/" jsonschema:"Absolute path of the directory."`
}

type listDirectoryEntry struct {
	Name        string    `json:"name"`
	Path        string    `json:"path"`
	IsDirectory bool      `json:"is_directory"`
	IsReadOnly  bool      `json:"is_readonly"`
	SizeBytes   int64     `json:"size_bytes"`
	UpdatedAt   time.Time `json:"updated_at"`
}

type listDirectoryOut struct {
	Path    string               `json:"path"`
	Entries []listDirectoryEntry `json:"entries"`
}

// ListDirectory returns the tool that lists the entries of a directory.
func ListDirectory() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "list_directory",
		DisplayName: "List Directory",
		Narration:   tool.Narration{Started: "Listing the directory[ {path}]", Completed: "Listed the directory[ {path}][: {result.entries} entries]", Failed: "Could not list the directory[ {path}]"},
		Description: described(listDirectoryText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Hints:       tool.Hints{ReadOnly: ptrTrue(), Idempotent: ptrTrue()},
	}, listDirectory)
}

func listDirectory(ctx context.Context, in listDirectoryIn, env tool.Env) (listDirectoryOut, error) {
	store, err := files(env, "list_directory")
	if err != nil {
		return listDirectoryOut{}, err
	}
	in.Path = cmp.Or(in.Path, "/")
	path, err := tool.CleanPath(in.Path)
	if err != nil {
		return listDirectoryOut{}, err
	}
	stats, err := store.List(ctx, path, false)
	// An empty directory is [], not null.
	out := listDirectoryOut{Path: path, Entries: make([]listDirectoryEntry, 0, len(stats))}
	for _, s := range stats {
		out.Entries = append(out.Entries, listDirectoryEntry{
			Name: s.Name, Path: s.Path, IsDirectory: s.IsDirectory, IsReadOnly: s.IsReadOnly, SizeBytes: s.SizeBytes, UpdatedAt: s.UpdatedAt,
		})
	}
	return out, err
}
