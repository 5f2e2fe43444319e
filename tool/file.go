package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// The ways to write a file's content in JSON (FI2).
const (
	EncodingText   = "text"
	EncodingBase64 = "base64"
)

// EncodeContent returns content as it is written in JSON, and how: base64 when a NUL stands in the first 8,192 bytes or
// the bytes are not UTF-8, and else text. The encoding follows from the bytes, so two contents that are equal have the
// same one, and a compare-and-set on the bytes compares both (FI3).
func EncodeContent(content []byte) (text, encoding string) {
	if bytes.IndexByte(content[:min(len(content), 8192)], 0) < 0 && utf8.Valid(content) {
		return string(content), EncodingText
	}
	return base64.StdEncoding.EncodeToString(content), EncodingBase64
}

// DecodeContent is the way back. An empty encoding is text. Invalid: the encoding is not known, or the text is not base64.
func DecodeContent(text, encoding string) ([]byte, error) {
	switch encoding {
	case EncodingText, "":
		return []byte(text), nil
	case EncodingBase64:
		content, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			return content, nil
		}
		return nil, &FileError{Kind: perdure.Invalid, Text: "The content is not base64. Write it as base64, or set encoding to text."}
	}
	return nil, &FileError{Kind: perdure.Invalid, Text: fmt.Sprintf("Unknown encoding: %.40q. Set it to text or base64.", encoding)}
}

// FileLimits is how much a session's files may hold (FI6). The zero value is the limits of the rule.
type FileLimits struct {
	MaxFileBytes    int64 // of one file; 0: 100 MB
	MaxSessionBytes int64 // of all files of a session together; 0: 500 MB
}

// The limits of the rule.
const (
	maxFileBytes    = 100 << 20
	maxSessionBytes = 500 << 20
)

// OneFile is how large one file may be, in bytes.
func (l FileLimits) OneFile() int64 {
	if l.MaxFileBytes == 0 {
		return maxFileBytes
	}
	return l.MaxFileBytes
}

// CheckFile refuses a file that is too large, as a *FileError of kind Limit.
func (l FileLimits) CheckFile(path string, size int64) error {
	if size <= l.OneFile() {
		return nil
	}
	return &FileError{Kind: perdure.Limit, Text: fmt.Sprintf("File too large: %s has %d bytes, the limit is %d.", path, size, l.OneFile())}
}

// CheckSession refuses a write by which the files of a session, which hold used bytes, would hold too much: a *FileError
// of kind Limit. grown is by how many bytes they would grow; a write that does not make them grow is never refused.
func (l FileLimits) CheckSession(path string, used, grown int64) error {
	limit := l.MaxSessionBytes
	if limit == 0 {
		limit = maxSessionBytes
	}
	if grown <= 0 || used+grown <= limit {
		return nil
	}
	return &FileError{Kind: perdure.Limit, Text: fmt.Sprintf(
		"No room for %s: the session's files use %d bytes, it would add %d, the limit is %d. Delete files that are not needed.", path, used, grown, limit)}
}

// InitialFile is a file that a session begins with (FI10).
type InitialFile struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"` // empty: text
	IsReadOnly bool   `json:"is_readonly"`
}

// Seeder is a Files whose host can write files into it that the model cannot change (FI5).
type Seeder interface {
	// Seed writes a file, in place of whatever file is there, read-only or not. It is for the host. Running it again
	// writes the same again, and so puts back what something else than a tool has changed.
	Seed(ctx context.Context, f InitialFile) error
}

// SeedFile writes an initial file. Invalid: the file is read-only and the files are no [Seeder], so nothing would keep
// it so.
func SeedFile(ctx context.Context, files Files, f InitialFile) error {
	if seeder, ok := files.(Seeder); ok {
		return seeder.Seed(ctx, f)
	}
	if f.IsReadOnly {
		return &FileError{Kind: perdure.Invalid, Text: "read-only initial files require a SessionFileSystem-specific seed implementation"}
	}
	content, err := DecodeContent(f.Content, f.Encoding)
	if err != nil {
		return err
	}
	_, err = files.Write(ctx, FileWrite{Path: f.Path, Content: content})
	return err
}

// ListedFile is a file of a session without its content, for those outside (FI10).
type ListedFile struct {
	ID          string            `json:"id"`
	Session     perdure.SessionID `json:"session_id"`
	Path        string            `json:"path"`
	Name        string            `json:"name"`
	IsDirectory bool              `json:"is_directory"`
	IsReadOnly  bool              `json:"is_readonly"`
	SizeBytes   int64             `json:"size_bytes"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

// SessionFile is a file of a session, for those outside (FI10).
type SessionFile struct {
	ID          string            `json:"id"`
	Session     perdure.SessionID `json:"session_id"`
	Path        string            `json:"path"`
	Name        string            `json:"name"`
	Content     *string           `json:"content,omitempty"` // nil for a directory
	Encoding    string            `json:"encoding"`
	IsDirectory bool              `json:"is_directory"`
	IsReadOnly  bool              `json:"is_readonly"`
	SizeBytes   int64             `json:"size_bytes"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

// Of returns what those outside see of a file without its content. The id follows from session and path, since there is
// one name for a file (FI1): a file that is deleted and written again has the same one.
func (s FileStat) Of(session perdure.SessionID) ListedFile {
	sum := sha256.Sum256([]byte(string(session) + "\x00" + s.Path))
	return ListedFile{
		ID: "file_" + hex.EncodeToString(sum[:16]), Session: session, Path: s.Path, Name: s.Name,
		IsDirectory: s.IsDirectory, IsReadOnly: s.IsReadOnly, SizeBytes: s.SizeBytes, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

// Of returns what those outside see of a file.
func (f File) Of(session perdure.SessionID) SessionFile {
	i := f.FileStat.Of(session)
	out := SessionFile{
		ID: i.ID, Session: session, Path: i.Path, Name: i.Name, Encoding: EncodingText,
		IsDirectory: i.IsDirectory, IsReadOnly: i.IsReadOnly, SizeBytes: i.SizeBytes, CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt,
	}
	if !f.IsDirectory {
		text, encoding := EncodeContent(f.Content)
		out.Content, out.Encoding = &text, encoding
	}
	return out
}

// DisabledFiles is the files of a session that may have none (FI6): each method answers with the same error, of kind
// Invalid. A host that wants no files gives it to the model; the runtime's own files need a place all the same.
type DisabledFiles struct{}

var _ Files = DisabledFiles{}

func disabled() error {
	return &FileError{Kind: perdure.Invalid, Text: "session filesystem is disabled"}
}

// Stat says that there are no files.
func (DisabledFiles) Stat(context.Context, string) (FileStat, error) { return FileStat{}, disabled() }

// Read says that there are no files.
func (DisabledFiles) Read(context.Context, string) (File, error) { return File{}, disabled() }

// Write says that there are no files.
func (DisabledFiles) Write(context.Context, FileWrite) (bool, error) { return false, disabled() }

// Remove says that there are no files.
func (DisabledFiles) Remove(context.Context, string, bool) (bool, error) { return false, disabled() }

// List says that there are no files.
func (DisabledFiles) List(context.Context, string, bool) ([]FileStat, error) {
	return nil, disabled()
}

// MakeDirectory says that there are no files.
func (DisabledFiles) MakeDirectory(context.Context, string) (FileStat, error) {
	return FileStat{}, disabled()
}
