package sqlstore

import (
	"fmt"
	"path"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// rootDir always exists and has no row.
const rootDir = "/"

const fileColumns = `path, directory, read_only, encoding, size_bytes, created_us, updated_us`

// The statements of files. Paths are BYTEA, so that both databases sort them by bytes.
const (
	selectFile = `SELECT ` + fileColumns + `, content FROM file WHERE session_id = $1 AND path = $2`
	listDir    = `SELECT ` + fileColumns + ` FROM file WHERE session_id = $1 AND parent = $2 ORDER BY path`
	listTree   = `SELECT ` + fileColumns + ` FROM file WHERE session_id = $1 AND path > $2 AND path < $3 ORDER BY path`
	putFile    = `INSERT INTO file (session_id, ` + fileColumns + `, content, parent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (session_id, path) DO UPDATE SET read_only = excluded.read_only, encoding = excluded.encoding,
			size_bytes = excluded.size_bytes, updated_us = excluded.updated_us, content = excluded.content`
	deleteFile = `DELETE FROM file WHERE session_id = $1 AND path = $2`
	deleteTree = `DELETE FROM file WHERE session_id = $1 AND path > $2 AND path < $3`
	isDir      = `SELECT directory FROM file WHERE session_id = $1 AND path = $2`
	fileBytes  = `SELECT CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM file WHERE session_id = $1`
)

// Get returns a file with its content.
func (tx fileStore) Get(session perdure.SessionID, name string) (store.File, error) {
	if name == rootDir {
		return store.File{Path: rootDir, Directory: true}, nil
	}
	err := tx.hold(session)
	var f store.File
	if err == nil {
		f, err = one(tx.Tx, scanFullFile, selectFile, session, bytesOf(name))
	}
	return wrapped(f, err, "file %s of %s", name, session)
}

func (tx fileStore) List(session perdure.SessionID, dir string, deep bool) ([]store.File, error) {
	kind, err := tx.kindOf(session, dir)
	if err == nil && kind != directory {
		err = perdure.NotFound
	}
	var found []store.File
	switch {
	case err != nil:
	case deep:
		first, last := below(dir)
		found, err = list(tx.Tx, scanFile, listTree, session, first, last)
	default:
		found, err = list(tx.Tx, scanFile, listDir, session, bytesOf(dir))
	}
	return wrapped(found, err, "list directory %s of %s", dir, session)
}

// TotalBytes returns the total size of a session's files. The index file_size covers the query, so
// no content is read.
func (tx fileStore) TotalBytes(session perdure.SessionID) (int64, error) {
	err := tx.hold(session)
	var n int64
	if err == nil {
		n, err = one(tx.Tx, number, fileBytes, session)
	}
	return wrapped(n, err, "add up the files of %s", session)
}

func (tx fileStore) Put(session perdure.SessionID, f store.File) (created bool, err error) {
	if !path.IsAbs(f.Path) {
		return false, fmt.Errorf("write %q of %s: %w: the path is not absolute", f.Path, session, perdure.Invalid)
	}
	kind, err := tx.kindOf(session, f.Path)
	switch {
	case err != nil:
	case kind == regular && f.Directory:
		err = fmt.Errorf("%w: path exists but is not a directory", perdure.Conflict)
	case kind == directory && !f.Directory:
		err = fmt.Errorf("%w: path is a directory", perdure.Conflict)
	case kind == directory:
		return false, nil
	case kind == nothing:
		err = tx.makeParents(session, f.Path)
	}
	if err == nil {
		err = tx.writeFile(session, f)
	}
	if err != nil {
		return false, fmt.Errorf("write %s of %s: %w", f.Path, session, err)
	}
	return kind == nothing, nil
}

// Remove removes a file, or a directory with everything below it. The root directory stays,
// emptied.
func (tx fileStore) Remove(session perdure.SessionID, name string) (bool, error) {
	if !path.IsAbs(name) {
		return false, fmt.Errorf("remove %q of %s: %w: the path is not absolute", name, session, perdure.Invalid)
	}
	first, last := below(name)
	err := tx.hold(session)
	var inside, n int64
	if err == nil {
		inside, err = tx.exec(deleteTree, session, first, last)
	}
	if err == nil {
		n, err = tx.exec(deleteFile, session, bytesOf(name))
	}
	if err != nil {
		return false, fmt.Errorf("remove %s of %s: %w", name, session, err)
	}
	return n+inside > 0, nil
}

// fileKind says what exists at a path.
type fileKind int

const (
	nothing fileKind = iota
	regular
	directory
)

func (tx *Tx) kindOf(session perdure.SessionID, name string) (fileKind, error) {
	if err := tx.hold(session); err != nil {
		return nothing, err
	}
	if name == rootDir {
		return directory, nil
	}
	dir, err := one(tx, truth, isDir, session, bytesOf(name))
	switch {
	case missing(err):
		return nothing, nil
	case err != nil:
		return nothing, err
	case dir:
		return directory, nil
	}
	return regular, nil
}

// makeParents creates the missing directories above a path.
func (tx *Tx) makeParents(session perdure.SessionID, name string) error {
	dir := path.Dir(name)
	kind, err := tx.kindOf(session, dir)
	switch {
	case err != nil || kind == directory:
		return err
	case kind == regular:
		return fmt.Errorf("%w: %s is not a directory", perdure.Conflict, dir)
	}
	if err := tx.makeParents(session, dir); err != nil {
		return err
	}
	return tx.writeFile(session, store.File{Path: dir, Directory: true})
}

func (tx *Tx) writeFile(session perdure.SessionID, f store.File) error {
	if f.Directory {
		f.Content = nil
	}
	now := micros(tx.Now())
	_, err := tx.exec(putFile, session, bytesOf(f.Path), f.Directory, f.ReadOnly, f.Encoding, len(f.Content), now, now,
		bytesOf(f.Content), bytesOf(path.Dir(f.Path)))
	return err
}

// below returns the exclusive bounds of the paths below a directory: '0' is the byte after '/'.
func below(dir string) (first, last []byte) {
	if dir == rootDir {
		dir = ""
	}
	return []byte(dir + "/"), []byte(dir + "0")
}

func truth(r row) (bool, error) {
	var b bool
	err := r.Scan(&b)
	return b, err
}

func scanFile(r row) (store.File, error) { return scanFileAnd(r) }

func scanFullFile(r row) (store.File, error) {
	var content []byte
	f, err := scanFileAnd(r, &content)
	if !f.Directory {
		f.Content = bytesOf(content)
	}
	return f, err
}

// scanFileAnd scans the columns of every file, and then more.
func scanFileAnd(r row, more ...any) (store.File, error) {
	var f store.File
	var name []byte
	var created, updated int64
	columns := []any{&name, &f.Directory, &f.ReadOnly, &f.Encoding, &f.SizeBytes, &created, &updated}
	err := r.Scan(append(columns, more...)...)
	f.Path, f.CreatedAt, f.UpdatedAt = string(name), moment(created), moment(updated)
	return f, err
}
