package tool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// The encodings of a file's content in JSON.
const (
	EncodingText   = "text"
	EncodingBase64 = "base64"
)

// EncodeContent returns content as text for JSON, and its encoding: base64 if the first 8,192 bytes
// contain a NUL or the bytes are not UTF-8, else text. The encoding depends only on the bytes.
// Equal contents therefore have the same encoding, and a compare-and-set on the bytes compares
// both.
func EncodeContent(content []byte) (text, encoding string) {
	if bytes.IndexByte(content[:min(len(content), 8192)], 0) < 0 && utf8.Valid(content) {
		return string(content), EncodingText
	}
	return base64.StdEncoding.EncodeToString(content), EncodingBase64
}

// DecodeContent is the inverse of EncodeContent. An empty encoding is text. Invalid: the encoding
// is unknown, or the text is not base64.
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

// FileLimits limits the files of a session. The zero value has the default limits.
type FileLimits struct {
	MaxFileBytes    int64 // of one file; 0: 100 MB
	MaxSessionBytes int64 // of all files of a session together; 0: 500 MB
}

// The default limits.
const (
	maxFileBytes    = 100 << 20
	maxSessionBytes = 500 << 20
)

// OneFile returns the limit of one file in bytes.
func (l FileLimits) OneFile() int64 {
	if l.MaxFileBytes == 0 {
		return maxFileBytes
	}
	return l.MaxFileBytes
}

// CheckFile returns a *FileError of kind Limit if a file is too large.
func (l FileLimits) CheckFile(path string, size int64) error {
	if size <= l.OneFile() {
		return nil
	}
	return &FileError{Kind: perdure.Limit, Text: fmt.Sprintf("File too large: %s has %d bytes, the limit is %d.", path, size, l.OneFile())}
}

// CheckSession returns a *FileError of kind Limit if a write would exceed the limit of the
// session's files. used is their present size, and grown is how much the write adds. A write that
// adds nothing is never refused.
func (l FileLimits) CheckSession(path string, used, grown int64) error {
	limit := l.MaxSessionBytes
	limit = cmp.Or(limit, maxSessionBytes)
	if grown <= 0 || used+grown <= limit {
		return nil
	}
	return &FileError{Kind: perdure.Limit, Text: fmt.Sprintf(
		"No room for %s: the session's files use %d bytes, it would add %d, the limit is %d. Delete files that are not needed.", path, used, grown, limit)}
}

// InitialFile is a file that exists when a session starts.
type InitialFile struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"` // empty: text
	IsReadOnly bool   `json:"is_readonly"`
}

// Seeder is implemented by Files into which the host can write files that the model cannot change.
type Seeder interface {
	// Seed writes a file and replaces an existing one, even if it is read-only. Repeating it writes
	// the same file again, which also undoes changes made outside of the tools.
	Seed(ctx context.Context, f InitialFile) error
}

// SeedFile writes an initial file. Invalid: the file is read-only and files is not a [Seeder], so
// nothing would protect it.
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

// ListedFile is a file of a session without its content, in the form of the API.
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

// SessionFile is a file of a session in the form of the API.
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

// ForAPI returns the file in the form of the API, without its content. The id is derived from
// session and path, so a file that is deleted and written again has the same id.
func (s FileStat) ForAPI(session perdure.SessionID) ListedFile {
	sum := sha256.Sum256([]byte(string(session) + "\x00" + s.Path))
	return ListedFile{
		ID: "file_" + hex.EncodeToString(sum[:16]), Session: session, Path: s.Path, Name: s.Name,
		IsDirectory: s.IsDirectory, IsReadOnly: s.IsReadOnly, SizeBytes: s.SizeBytes, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

// ForAPI returns the file in the form of the API.
func (f File) ForAPI(session perdure.SessionID) SessionFile {
	i := f.FileStat.ForAPI(session)
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

// DisabledFiles is for sessions without files: each method returns the same Invalid error. A host
// that wants no files passes it to tools; the runtime still needs a place for its own files.
type DisabledFiles struct{}

var _ Files = DisabledFiles{}

func disabled() error {
	return &FileError{Kind: perdure.Invalid, Text: "session filesystem is disabled"}
}

// Stat returns the error.
func (DisabledFiles) Stat(context.Context, string) (FileStat, error) { return FileStat{}, disabled() }

// Read returns the error.
func (DisabledFiles) Read(context.Context, string) (File, error) { return File{}, disabled() }

// Write returns the error.
func (DisabledFiles) Write(context.Context, FileWrite) (bool, error) { return false, disabled() }

// Remove returns the error.
func (DisabledFiles) Remove(context.Context, string, bool) (bool, error) { return false, disabled() }

// List returns the error.
func (DisabledFiles) List(context.Context, string, bool) ([]FileStat, error) {
	return nil, disabled()
}

// MakeDirectory returns the error.
func (DisabledFiles) MakeDirectory(context.Context, string) (FileStat, error) {
	return FileStat{}, disabled()
}
