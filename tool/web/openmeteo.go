package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// maxAnswerBytes limits a response of the weather service. A forecast for 14 days has about 2 KiB.
const maxAnswerBytes = 1 << 20

// The systems of units.
const (
	metric   = "metric"
	imperial = "imperial"
)

// openMeteo is a server with the API of Open-Meteo.
type openMeteo struct {
	weather   *url.URL
	geocoding *url.URL
}

// weatherQuery is a call of a weather tool.
type weatherQuery struct {
	openMeteo
	tool string // name of the tool
	env  tool.Env
}

// place is a location for which weather is requested.
type place struct {
	name      string
	latitude  float64
	longitude float64
}

// find returns the place for a location. Coordinates are used as they are; names are looked up with
// the service.
func (q weatherQuery) find(ctx context.Context, location string) (place, error) {
	location = strings.TrimSpace(location)
	unknown := tool.Errorf("Location not found: %s", location)
	if location == "" {
		return place{}, unknown
	}
	if found, numbers, ok := coordinates(location); numbers {
		if !ok {
			return place{}, unknown
		}
		return found, nil
	}
	var answer struct {
		Results []struct {
			Name      string   `json:"name"`
			Region    string   `json:"admin1"`
			Country   string   `json:"country"`
			Latitude  *float64 `json:"latitude"`
			Longitude *float64 `json:"longitude"`
		} `json:"results"`
	}
	query := url.Values{"name": {location}, "count": {"1"}, "language": {language(q.env.Locale)}, "format": {"json"}}
	if err := q.ask(ctx, q.geocoding.JoinPath("v1", "search"), query, &answer); err != nil {
		return place{}, err
	}
	if len(answer.Results) == 0 {
		return place{}, unknown
	}
	best := answer.Results[0]
	if best.Latitude == nil || best.Longitude == nil || !onEarth(*best.Latitude, *best.Longitude) {
		return place{}, unreadable()
	}
	return place{name: address(best.Name, best.Region, best.Country), latitude: *best.Latitude, longitude: *best.Longitude}, nil
}

// coordinates parses "latitude,longitude". numbers reports that it is two numbers, ok that they are
// valid coordinates.
func coordinates(text string) (found place, numbers, ok bool) {
	north, east, _ := strings.Cut(text, ",")
	latitude, errNorth := strconv.ParseFloat(strings.TrimSpace(north), 64)
	longitude, errEast := strconv.ParseFloat(strings.TrimSpace(east), 64)
	if errNorth != nil || errEast != nil {
		return place{}, false, false
	}
	return place{name: text, latitude: latitude, longitude: longitude}, true, onEarth(latitude, longitude)
}

// onEarth reports whether coordinates are valid. It is false for NaN.
func onEarth(latitude, longitude float64) bool {
	return latitude >= -90 && latitude <= 90 && longitude >= -180 && longitude <= 180
}

// address joins the parts of a place name, without empty and repeated ones.
func address(parts ...string) string {
	var said []string
	for _, part := range parts {
		part = clean(strings.TrimSpace(part))
		if part != "" && (len(said) == 0 || said[len(said)-1] != part) {
			said = append(said, part)
		}
	}
	return strings.Join(said, ", ")
}

// language returns the language code of a locale: two lower-case letters, by default en.
func language(locale string) string {
	code, _, _ := strings.Cut(strings.ReplaceAll(locale, "_", "-"), "-")
	code = strings.ToLower(code)
	if len(code) != 2 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "en"
	}
	return code
}

// forecast requests the weather of a place. query names the values; location and units are added.
func (q weatherQuery) forecast(ctx context.Context, at place, units string, query url.Values, answer any) error {
	query.Set("latitude", strconv.FormatFloat(at.latitude, 'f', -1, 64))
	query.Set("longitude", strconv.FormatFloat(at.longitude, 'f', -1, 64))
	query.Set("timezone", "auto") // days start at local midnight
	if units == imperial {
		query.Set("temperature_unit", "fahrenheit")
		query.Set("wind_speed_unit", "mph")
		query.Set("precipitation_unit", "inch")
	}
	return q.ask(ctx, q.weather.JoinPath("v1", "forecast"), query, answer)
}

// ask sends one request and decodes the response. Any status but 200 is an error (TL28).
func (q weatherQuery) ask(ctx context.Context, at *url.URL, query url.Values, answer any) error {
	full := *at
	full.RawQuery = query.Encode()
	resp, err := send(ctx, q.env, q.tool, named(at), perdure.WebRequest{
		URL:      full.String(),
		Header:   map[string][]string{"Accept": {"application/json"}},
		Purpose:  Purpose,
		MaxBytes: maxAnswerBytes,
	})
	if err != nil {
		return err
	}
	if resp.Status != http.StatusOK {
		return tool.Errorf("HTTP %d from %s", resp.Status, named(at))
	}
	if resp.Truncated || perdure.DecodeKnownJSON(resp.Body, answer) != nil {
		return unreadable()
	}
	return nil
}

// unreadable is the error for an invalid response. Its content is not shown, because the model
// cannot do anything with it.
func unreadable() error {
	return tool.Errorf("The weather service sent an invalid response. Try again later.")
}
