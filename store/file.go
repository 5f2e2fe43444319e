package store

import (
	"time"

	"github.com/perdure/perdure"
)

// Encoding is the encoding of a file's content in JSON.
type Encoding string

// The encodings.
const (
	EncodingText   Encoding = "text"
	EncodingBase64 Encoding = "base64"
)

// File is a file or directory of a session.
type File struct {
	Path      string   // absolute and normalised
	Content   []byte   // empty for a directory, and in lists
	Encoding  Encoding // of the content in JSON
	Directory bool
	ReadOnly  bool
	SizeBytes int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// FileReader reads the files of sessions. The caller normalises paths.
type FileReader interface {
	// Get returns a file with its content. NotFound: it does not exist. The root directory always
	// exists.
	Get(session perdure.SessionID, path string) (File, error)
	// List lists the entries of a directory, sorted by path, without contents; with deep, all
	// entries below it. An empty directory gives an empty list. NotFound: no such directory.
	List(session perdure.SessionID, dir string, deep bool) ([]File, error)
	// TotalBytes returns the total size of a session's files in bytes. 0: it has none.
	TotalBytes(session perdure.SessionID) (int64, error)
}

// FileWriter writes the files of sessions.
type FileWriter interface {
	// Put writes Path, Content, Encoding, Directory and ReadOnly of a file or directory, and
	// creates missing parents; the store sets size and times. created reports whether it is new. An
	// existing directory is not changed. The caller decides whether an existing file may be
	// overwritten. Conflict: there is a directory where a file should be, or a file where a
	// directory or a parent should be. Invalid: the path does not start with a slash.
	Put(session perdure.SessionID, f File) (created bool, err error)
	// Remove removes a file, or a directory with everything below it, and reports whether
	// anything was removed. The root directory stays, emptied. Invalid: the path does not start
	// with a slash.
	Remove(session perdure.SessionID, path string) (bool, error)
}
