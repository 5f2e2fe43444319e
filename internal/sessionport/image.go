package sessionport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// maxForkDepth limits how many forks back an image is looked up.
const maxForkDepth = 16

// images implements tool.Images over the store. The bytes of large images are in the blob store.
type images struct {
	binding
	blobs *blob.Store    // nil: the store holds all bytes
	home  perdure.HomeID // of blobs; empty: they bind the session to none
}

var (
	_ tool.Images       = images{}
	_ tool.ImageManager = images{}
)

// Create returns once the bytes are durable. The bytes of a large image are written before the row
// that names them, so a crash in between leaves bytes without a row, never a row without bytes.
func (p images) Create(ctx context.Context, w tool.ImageWrite) (tool.ImageStat, error) {
	return p.create(ctx, w, false)
}

// CreateOnce is Create, unless the session has the image already.
func (p images) CreateOnce(ctx context.Context, w tool.ImageWrite) (tool.ImageStat, error) {
	return p.create(ctx, w, true)
}

func (p images) create(ctx context.Context, w tool.ImageWrite, once bool) (tool.ImageStat, error) {
	i, err := p.newImage(w)
	if err == nil && p.blobs != nil && len(i.Data) > store.MaxInlineImageBytes {
		i.Blob, i.Data = true, nil
		_, err = p.blobs.Put(w.Data)
	}
	var made store.Image
	if err == nil {
		err = p.write(ctx, func(tx store.Tx, row store.Session) (err error) {
			if i.Blob {
				if err := bind(tx, row, p.home); err != nil {
					return err
				}
			}
			if once {
				if made, err = sameImage(tx, i); made.ID != "" || err != nil {
					return err
				}
			}
			made, err = tx.Images().Put(i)
			return err
		})
	}
	if err != nil {
		return tool.ImageStat{}, fmt.Errorf("create image %.80q: %w", w.Filename, err)
	}
	return imageStat(made), nil
}

// sameImage returns the image of the session with the same bytes and name; the zero value: there is
// none.
func sameImage(tx store.Tx, i store.Image) (store.Image, error) {
	all, err := tx.Images().List(i.Session)
	for _, known := range all {
		if known.SHA256 == i.SHA256 && known.Filename == i.Filename {
			return known, err
		}
	}
	return store.Image{}, err
}

// List lists the images of the session.
func (p images) List(ctx context.Context) (found []tool.ImageStat, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		found = nil
		if _, err := r.Sessions().Get(p.session); err != nil {
			return err
		}
		all, err := r.Images().List(p.session)
		for _, i := range all {
			found = append(found, imageStat(i))
		}
		return err
	})
	return found, err
}

// Remove removes an image of the session. The bytes of a large one stay in the blob store until
// they are collected, because another image may have the same.
func (p images) Remove(ctx context.Context, id perdure.ImageID) error {
	err := p.write(ctx, func(tx store.Tx, _ store.Session) error { return tx.Images().Remove(p.session, id) })
	if err != nil {
		return fmt.Errorf("remove image %.80q: %w", id, err)
	}
	return nil
}

// newImage checks an image before it is stored. The content type is detected from the bytes.
func (p images) newImage(w tool.ImageWrite) (store.Image, error) {
	if len(w.Data) > store.MaxImageBytes {
		return store.Image{}, fmt.Errorf("%w: it has %d bytes; the limit is %d",
			perdure.Limit, len(w.Data), store.MaxImageBytes)
	}
	kind := http.DetectContentType(w.Data)
	if !slices.Contains(store.ImageTypes(), kind) {
		return store.Image{}, fmt.Errorf("%w image: its bytes are %s; only PNG, JPEG, GIF and WebP are supported",
			perdure.Invalid, kind)
	}
	metadata := []byte("{}")
	if len(bytes.TrimSpace(w.Metadata)) > 0 {
		metadata = bytes.Clone(w.Metadata)
	}
	sum := sha256.Sum256(w.Data)
	return store.Image{
		ID: newID[perdure.ImageID](), Session: p.session, Filename: strings.ToValidUTF8(w.Filename, "\uFFFD"),
		ContentType: kind, SizeBytes: int64(len(w.Data)), SHA256: hex.EncodeToString(sum[:]), Metadata: metadata,
		Data: w.Data,
	}, nil
}

// Image returns an image with its bytes.
func (p images) Image(ctx context.Context, id perdure.ImageID) (tool.Image, error) {
	i, err := p.find(ctx, id)
	if err == nil && i.Blob {
		i.Data, err = p.open(i)
	}
	if err != nil {
		return tool.Image{}, fmt.Errorf("read image %.80q: %w", id, err)
	}
	return tool.Image{ImageStat: imageStat(i), Data: i.Data}, nil
}

func (p images) open(i store.Image) ([]byte, error) {
	if p.blobs == nil {
		return nil, fmt.Errorf("%w: its bytes are in the blob store, and this runtime has none configured",
			perdure.Unavailable)
	}
	return p.blobs.Get(i.SHA256)
}

func (p images) ImageStat(ctx context.Context, id perdure.ImageID) (tool.ImageStat, error) {
	i, err := p.find(ctx, id)
	if err != nil {
		return tool.ImageStat{}, fmt.Errorf("describe image %.80q: %w", id, err)
	}
	return imageStat(i), nil
}

// Resolve returns an image in the form that is sent to a model. An image whose bytes are gone is
// reported as missing.
func (p images) Resolve(ctx context.Context, id perdure.ImageID) (tool.ResolvedImage, bool, error) {
	i, err := p.Image(ctx, id)
	switch {
	case errors.Is(err, perdure.NotFound):
		return tool.ResolvedImage{}, false, nil
	case err != nil:
		return tool.ResolvedImage{}, false, err
	}
	return tool.ResolvedImage{MediaType: i.ContentType, Base64: base64.StdEncoding.EncodeToString(i.Data)}, true, nil
}

// find looks up an image in the session, and then in the sessions from which it was forked: a fork
// starts with the same messages, which name the same images.
func (p images) find(ctx context.Context, id perdure.ImageID) (found store.Image, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		session := p.session
		for range maxForkDepth {
			if found, err = r.Images().Get(session, id); !errors.Is(err, perdure.NotFound) {
				return err
			}
			row, rowErr := r.Sessions().Get(session)
			if rowErr != nil || row.Forked == "" {
				return err
			}
			session = row.Forked
		}
		return err
	})
	return found, err
}

func imageStat(i store.Image) tool.ImageStat {
	return tool.ImageStat{
		ID: i.ID, Filename: i.Filename, ContentType: i.ContentType, SizeBytes: i.SizeBytes, Metadata: i.Metadata,
		CreatedAt: i.CreatedAt,
	}
}

// CollectBlobs removes the blobs that no image names and that were written before a given time.
// That time must be long past compared to the duration of a commit, such as an hour ago: the row of
// a new image is committed after its blob. It returns the number of removed blobs. It is safe to
// run concurrently with everything else, and to run again.
func CollectBlobs(ctx context.Context, s store.Store, blobs *blob.Store, before time.Time) (removed int, err error) {
	err = blobs.Walk(before, func(b blob.Blob) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !b.PutAt.Before(before) {
			return nil
		}
		named, err := store.Read(ctx, s, func(r store.Reader) (bool, error) { return r.Images().HasBlob(b.SHA256) })
		if err != nil || named {
			return err
		}
		gone, err := blobs.Remove(b.SHA256, before)
		if gone {
			removed++
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("collect blobs: %w", err)
	}
	return removed, nil
}
