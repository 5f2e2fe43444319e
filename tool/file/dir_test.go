package file_test

import (
	"testing"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/tooltest"
)

// openDir opens a Dir on a fresh folder.
func openDir(t *testing.T, folder string) *file.Dir {
	t.Helper()
	d, err := file.OpenDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestDir(t *testing.T) {
	t.Parallel()
	tooltest.Files(t, func(t *testing.T) tool.Files { return openDir(t, t.TempDir()) })
}

func TestDirQuotas(t *testing.T) {
	t.Parallel()
	tooltest.FileQuotas(t, func(t *testing.T, l tool.FileLimits) tool.Files { return openDir(t, t.TempDir()).Limit(l) })
}
