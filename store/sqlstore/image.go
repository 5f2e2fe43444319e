package sqlstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const imageColumns = `id, session_id, filename, content_type, size_bytes, sha256, metadata, is_blob, created_us`

// The statements of images. The session's row is locked before its images are counted.
const (
	selectImage = `SELECT ` + imageColumns + `, body FROM image WHERE id = $1 AND session_id = $2`
	fullImages  = `SELECT ` + imageColumns + `, body FROM image WHERE session_id = $1 ORDER BY created_us`
	listImages  = `SELECT ` + imageColumns + ` FROM image WHERE session_id = $1 ORDER BY created_us`
	countImages = `SELECT COUNT(*) FROM image WHERE session_id = $1`
	countBlob   = `SELECT COUNT(*) FROM image WHERE sha256 = $1 AND is_blob`
	insertImage = `INSERT INTO image (` + imageColumns + `, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (id) DO NOTHING`
	removeImages = `DELETE FROM image WHERE session_id = $1`
	removeImage  = `DELETE FROM image WHERE id = $1 AND session_id = $2`
)

// Get returns an image with its bytes.
func (tx imageStore) Get(session perdure.SessionID, id perdure.ImageID) (store.Image, error) {
	found, err := one(tx.Tx, scanFullImage, selectImage, id, session)
	return wrapped(found, err, "image %s of %s", id, session)
}

// List lists the images of a session, without their bytes.
func (tx imageStore) List(session perdure.SessionID) ([]store.Image, error) {
	err := tx.hold(session)
	var found []store.Image
	if err == nil {
		found, err = list(tx.Tx, scanImage, listImages, session)
	}
	if err != nil {
		return nil, fmt.Errorf("list images of %s: %w", session, err)
	}
	sortImages(found)
	return found, nil
}

// sortImages sorts images by creation, then by id, and not by a collation of the database.
func sortImages(all []store.Image) {
	slices.SortStableFunc(all, func(a, b store.Image) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// wholeImages is Images with the bytes that are stored here.
func (tx *Tx) wholeImages(session perdure.SessionID) ([]store.Image, error) {
	found, err := list(tx, scanFullImage, fullImages, session)
	sortImages(found)
	return found, err
}

func (tx imageStore) HasBlob(sha256 string) (bool, error) {
	n, err := one(tx.Tx, number, countBlob, sha256)
	return wrapped(n > 0, err, "look for blob %s", sha256)
}

func (tx imageStore) Put(i store.Image) (store.Image, error) {
	err := i.Check()
	if err == nil {
		err = tx.holdExisting(i.Session)
	}
	if err == nil {
		var n int64
		if n, err = one(tx.Tx, number, countImages, i.Session); err == nil && n >= store.MaxImages {
			err = fmt.Errorf("%w: the session has %d images", perdure.Limit, n)
		}
	}
	i.CreatedAt = tx.Now()
	if err == nil {
		var n int64
		n, err = tx.insertImage(i)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: it exists already", perdure.Conflict)
		}
	}
	if err != nil {
		return store.Image{}, fmt.Errorf("put image %s of %s: %w", i.ID, i.Session, err)
	}
	i.Data, i.Metadata = nil, slices.Clone(i.Metadata)
	return i, nil
}

// Remove removes an image of a session.
func (tx imageStore) Remove(session perdure.SessionID, id perdure.ImageID) error {
	err := tx.hold(session)
	if err == nil {
		var n int64
		if n, err = tx.exec(removeImage, id, session); err == nil && n == 0 {
			err = perdure.NotFound
		}
	}
	if err != nil {
		return fmt.Errorf("remove image %s of %s: %w", id, session, err)
	}
	return nil
}

// insertImage adds a row as it is; 0 means that its id exists.
func (tx *Tx) insertImage(i store.Image) (int64, error) {
	return tx.exec(insertImage, i.ID, i.Session, bytesOf(i.Filename), i.ContentType, i.SizeBytes, i.SHA256,
		bytesOf(i.Metadata), i.Blob,
		micros(i.CreatedAt), bytesOf(i.Data))
}

func scanImage(r row) (store.Image, error) { return scanImageAnd(r) }

func scanFullImage(r row) (store.Image, error) {
	var body []byte
	i, err := scanImageAnd(r, &body)
	if len(body) > 0 {
		i.Data = body
	}
	return i, err
}

// scanImageAnd scans the columns of every image, and then more.
func scanImageAnd(r row, more ...any) (store.Image, error) {
	var i store.Image
	var filename, metadata []byte
	var created int64
	columns := []any{&i.ID, &i.Session, &filename, &i.ContentType, &i.SizeBytes, &i.SHA256, &metadata, &i.Blob,
		&created}
	err := r.Scan(append(columns, more...)...)
	i.Filename, i.Metadata, i.CreatedAt = string(filename), metadata, moment(created)
	return i, err
}
