package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The shapes of FI10, as others read them.
func TestFileShapes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	stat := tool.FileStat{Path: "/d/a.txt", Name: "a.txt", IsReadOnly: true, SizeBytes: 3, CreatedAt: at, UpdatedAt: at.Add(time.Second)}
	dir := tool.FileStat{Path: "/d", Name: "d", IsDirectory: true, CreatedAt: at, UpdatedAt: at}
	const session = perdure.SessionID("session_1")
	for _, test := range []struct {
		name  string
		shape any
		want  string
	}{
		{"SessionFile", tool.File{FileStat: stat, Content: []byte("hi\n")}.ForAPI(session), `{"id":"file_a6477363e0c9ac2f7edcb1e93f42b1f9","session_id":"session_1","path":"/d/a.txt","name":"a.txt",` +
			`"content":"hi\n","encoding":"text","is_directory":false,"is_readonly":true,"size_bytes":3,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:06.678901Z"}`},
		{"SessionFile of bytes", tool.File{FileStat: stat, Content: []byte("\x00\xff")}.ForAPI(session), `{"id":"file_a6477363e0c9ac2f7edcb1e93f42b1f9","session_id":"session_1","path":"/d/a.txt","name":"a.txt",` +
			`"content":"AP8=","encoding":"base64","is_directory":false,"is_readonly":true,"size_bytes":3,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:06.678901Z"}`},
		{"SessionFile of nothing", tool.File{FileStat: tool.FileStat{Path: "/e", Name: "e", CreatedAt: at, UpdatedAt: at}}.ForAPI(session), `{"id":"file_f77b88890929a34c8b332c5bab157a55","session_id":"session_1",` +
			`"path":"/e","name":"e","content":"","encoding":"text","is_directory":false,"is_readonly":false,"size_bytes":0,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:05.678901Z"}`},
		{"SessionFile of a directory", tool.File{FileStat: dir}.ForAPI(session), `{"id":"file_7cbdd12c851add74bba3f7af49c2ed22","session_id":"session_1","path":"/d","name":"d",` +
			`"encoding":"text","is_directory":true,"is_readonly":false,"size_bytes":0,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:05.678901Z"}`},
		{"FileInfo", dir.ForAPI(session), `{"id":"file_7cbdd12c851add74bba3f7af49c2ed22","session_id":"session_1","path":"/d","name":"d",` +
			`"is_directory":true,"is_readonly":false,"size_bytes":0,"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:05.678901Z"}`},
		{"FileStat", stat, `{"path":"/d/a.txt","name":"a.txt","is_directory":false,"is_readonly":true,"size_bytes":3,` +
			`"created_at":"2026-01-02T03:04:05.678901Z","updated_at":"2026-01-02T03:04:06.678901Z"}`},
		{"InitialFile", tool.InitialFile{Path: "/AGENTS.md", Content: "Be kind.", Encoding: tool.EncodingText, IsReadOnly: true},
			`{"path":"/AGENTS.md","content":"Be kind.","encoding":"text","is_readonly":true}`},
	} {
		got, err := json.Marshal(test.shape)
		if err != nil || string(got) != test.want {
			t.Errorf("%s, %v:\ngot  %s\nwant %s", test.name, err, got, test.want)
		}
	}
}

// The encoding follows from the bytes, and the way there and back ends where it began (FI2).
func TestContentComesBack(t *testing.T) {
	t.Parallel()
	late := strings.Repeat("a", 8192)
	for content, want := range map[string]string{
		"": tool.EncodingText, "Grüße, 世界": tool.EncodingText, "\ufeffbom\r\n": tool.EncodingText, late + "\x00": tool.EncodingText,
		late[1:] + "\x00": tool.EncodingBase64, "\x00": tool.EncodingBase64, "\xff": tool.EncodingBase64, late + "\xc3": tool.EncodingBase64, "\xed\xa0\x80": tool.EncodingBase64,
	} {
		text, encoding := tool.EncodeContent([]byte(content))
		back, err := tool.DecodeContent(text, encoding)

		if encoding != want || !bytes.Equal(back, []byte(content)) || err != nil {
			t.Errorf("%.20q: %s, came back as %.20q, %v; want %s", content, encoding, back, err, want)
		}
	}
	if got, err := tool.DecodeContent("AP8=", ""); string(got) != "AP8=" || err != nil {
		t.Errorf("without an encoding: %q, %v", got, err)
	}
	for text, encoding := range map[string]string{"#": tool.EncodingBase64, "a": "utf-16"} {
		if _, err := tool.DecodeContent(text, encoding); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s as %s: %v", text, encoding, err)
		}
	}
}

// bare are files that cannot be seeded; they keep what was written.
type bare struct {
	tool.DisabledFiles
	written map[string]string
}

func (p bare) Write(_ context.Context, w tool.FileWrite) (bool, error) {
	p.written[w.Path] = string(w.Content)
	return true, nil
}

func TestSeedFile(t *testing.T) {
	t.Parallel()
	f := bare{written: map[string]string{}}

	err := tool.SeedFile(t.Context(), f, tool.InitialFile{Path: "/fixed", Content: "x", IsReadOnly: true})
	if want := "read-only initial files require a SessionFileSystem-specific seed implementation"; err == nil || err.Error() != want || !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v", err)
	}
	if err := tool.SeedFile(t.Context(), f, tool.InitialFile{Path: "/bytes", Content: "AP8=", Encoding: tool.EncodingBase64}); err != nil {
		t.Error(err)
	}
	if len(f.written) != 1 || f.written["/bytes"] != "\x00\xff" {
		t.Errorf("got %q", f.written)
	}
}

func TestDisabledFiles(t *testing.T) {
	t.Parallel()
	var f tool.Files = tool.DisabledFiles{}
	ctx := t.Context()
	_, statErr := f.Stat(ctx, "/a")
	_, readErr := f.Read(ctx, "/a")
	_, writeErr := f.Write(ctx, tool.FileWrite{Path: "/a"})
	_, removeErr := f.Remove(ctx, "/a", true)
	_, listErr := f.List(ctx, "/", true)
	_, makeErr := f.MakeDirectory(ctx, "/a")
	seedErr := tool.SeedFile(ctx, f, tool.InitialFile{Path: "/a"})

	for step, err := range []error{statErr, readErr, writeErr, removeErr, listErr, makeErr, seedErr} {
		var fileError *tool.FileError
		if !errors.As(err, &fileError) || err.Error() != "session filesystem is disabled" {
			t.Errorf("step %d: got %v", step, err)
		}
	}
}
