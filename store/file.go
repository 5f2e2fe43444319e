package store

import (
	"time"

	"github.com/perdure/perdure"
)

// Encoding is how a file's content is written in JSON.
type Encoding string

// The encodings.
const (
	EncodingText   Encoding = "text"
	EncodingBase64 Encoding = "base64"
)

// File is a file or directory of a session (FI10).
type File struct {
	Path      string   // absolute, normalised (FI1)
	Content   []byte   // empty for a directory, and where only the stat was asked for
	Encoding  Encoding // of the content on its way in
	Directory bool
	ReadOnly  bool
	SizeBytes int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// FileReader reads the files of sessions. Paths are normalised by the caller.
type FileReader interface {
	// File returns a file with its content. NotFound: nothing there. The root directory always is there.
	File(session perdure.SessionID, path string) (File, error)
	// Files lists what stands directly in a directory, sorted by path, without contents; with deep, all
	// below it. NotFound: no such directory. An empty directory is empty (FI4).
	Files(session perdure.SessionID, dir string, deep bool) ([]File, error)
	// FileBytes returns how many bytes the contents of a session's files hold together (FI6). 0: it has none.
	FileBytes(session perdure.SessionID) (int64, error)
}

// FileWriter writes the files of sessions.
type FileWriter interface {
	// PutFile writes Path, Content, Encoding, Directory and ReadOnly of a file or directory and makes missing
	// parents; size and moments are the store's. created tells whether it was not there. A directory that is
	// there stays as it is. Whether a file may be written over is the caller's to judge (FI5).
	// Conflict: a directory in the file's place, or a file in a directory's or parent's place. Invalid: the
	// path does not begin with a slash.
	PutFile(session perdure.SessionID, f File) (created bool, err error)
	// RemoveFile removes a file, or a directory with all below it, and says whether something was removed.
	// The root directory stays, emptied. Invalid: the path does not begin with a slash.
	RemoveFile(session perdure.SessionID, path string) (bool, error)
}
