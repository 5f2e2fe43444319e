package memory

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Get returns an image with its bytes.
func (v imageStore) Get(session perdure.SessionID, id perdure.ImageID) (store.Image, error) {
	found, ok := v.images.get(string(id))
	if !ok || found.Session != session {
		return store.Image{}, fmt.Errorf("image %s of %s: %w", id, session, perdure.NotFound)
	}
	found.Data, found.Metadata = clone(found.Data), bytes.Clone(found.Metadata)
	return found, nil
}

// List lists the images of a session, without their bytes.
func (v imageStore) List(session perdure.SessionID) ([]store.Image, error) {
	found := v.fullImages(session)
	for i := range found {
		found[i].Data = nil
	}
	return found, nil
}

// fullImages is Images with the bytes of those that are not blobs.
func (v *tx) fullImages(session perdure.SessionID) (found []store.Image) {
	for _, i := range v.images.from("") {
		if i.Session == session {
			i.Data, i.Metadata = clone(i.Data), bytes.Clone(i.Metadata)
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b store.Image) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// HasBlob reports whether an image's bytes are stored as a blob.
func (v imageStore) HasBlob(sha256 string) (bool, error) {
	for _, i := range v.images.from("") {
		if i.Blob && i.SHA256 == sha256 {
			return true, nil
		}
	}
	return false, nil
}

// Remove removes an image of a session.
func (t imageStore) Remove(session perdure.SessionID, id perdure.ImageID) error {
	if found, ok := t.images.get(string(id)); !ok || found.Session != session {
		return fmt.Errorf("remove image %s of %s: %w", id, session, perdure.NotFound)
	}
	t.images = t.images.remove(string(id))
	return nil
}

func (t imageStore) Put(i store.Image) (store.Image, error) {
	err := i.Check()
	switch {
	case err != nil:
	case !t.sessions.has(string(i.Session)):
		err = fmt.Errorf("session %s: %w", i.Session, perdure.NotFound)
	case t.images.has(string(i.ID)):
		err = fmt.Errorf("%w: it exists already", perdure.Conflict)
	default:
		if all, _ := t.Images().List(i.Session); len(all) >= store.MaxImages { // never fails
			err = fmt.Errorf("%w: the session has %d images", perdure.Limit, len(all))
		}
	}
	if err != nil {
		return store.Image{}, fmt.Errorf("put image %s of %s: %w", i.ID, i.Session, err)
	}
	i.Data, i.Metadata, i.CreatedAt = clone(i.Data), bytes.Clone(i.Metadata), t.now
	t.images = t.images.put(string(i.ID), i)
	i.Data, i.Metadata = nil, bytes.Clone(i.Metadata)
	return i, nil
}
