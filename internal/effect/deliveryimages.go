package effect

import (
	"errors"
	"slices"

	"github.com/perdure/perdure"
)

// withImages adds the images of their results to the notification about ended tasks. A task's own
// record has only text; the result in the effect ledger has the images.
func (s *step) withImages(event perdure.Event) (perdure.Event, error) {
	delivered, ok := event.Fact.(perdure.TaskDelivered)
	if !ok {
		return event, nil
	}
	parts := slices.Clone(delivered.Message.Parts)
	for _, id := range delivered.TaskIDs {
		task, own := s.session.Tasks[id]
		if !own {
			continue
		}
		row, err := s.tx.Calls().Get(perdure.CallKey{Session: s.d.ID, Call: task.Call})
		switch {
		case errors.Is(err, perdure.NotFound):
			continue
		case err != nil:
			return event, err
		case row.Task != id || row.Result == nil:
			continue
		}
		for _, image := range row.Result.Images {
			part := perdure.Part{Type: perdure.PartImage, Image: &image, Untrusted: true}
			if image.ID != "" {
				part = perdure.Part{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: image.ID}, Untrusted: true}
			}
			parts = append(parts, part)
		}
	}
	if len(parts) > len(delivered.Message.Parts) {
		delivered.Message.Parts = parts
		event.Fact = delivered
	}
	return event, nil
}
