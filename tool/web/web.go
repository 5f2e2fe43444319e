// Package web holds the three tools that look at the outside world: get_weather, get_forecast and web_fetch
// (TL27).
//
// It may import the root, tool, html-to-markdown and the leaves. The one thing to know: it opens no
// connection. Whatever leaves goes through the port tool.Egress with the session's network list, and what
// comes back is foreign: bounded, decoded and cleaned before a model reads it.
package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The public service that the weather tools ask where Config names no other.
const (
	DefaultWeatherURL   = "https://api.open-meteo.com"
	DefaultGeocodingURL = "https://geocoding-api.open-meteo.com"
)

// Purpose is what the weather tools say they send a request for. An operator who runs a weather server on a
// private address lists it for this purpose, which opens it to nothing else (EG3). web_fetch has none.
const Purpose = "weather"

// deadline ends a call of these tools. A page that takes longer is not worth waiting for.
const deadline = 2 * time.Minute

// Config says whom the weather tools ask. Each URL is the part before /v1/forecast and /v1/search of a
// server that speaks the protocol of Open-Meteo.
type Config struct {
	WeatherURL   string // empty: DefaultWeatherURL
	GeocodingURL string // empty: DefaultGeocodingURL
}

// Tools returns the set, in the order in which models are told of it. Invalid: a URL of the config is none.
func Tools(cfg Config) ([]tool.Tool, error) {
	s, err := newOpenMeteo(cfg)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{getWeather(s), getForecast(s), WebFetch()}, nil
}

// newOpenMeteo checks the config.
func newOpenMeteo(cfg Config) (openMeteo, error) {
	weather, err := baseURL("WeatherURL", cfg.WeatherURL, DefaultWeatherURL)
	if err != nil {
		return openMeteo{}, err
	}
	geocoding, err := baseURL("GeocodingURL", cfg.GeocodingURL, DefaultGeocodingURL)
	if err != nil {
		return openMeteo{}, err
	}
	return openMeteo{weather: weather, geocoding: geocoding}, nil
}

func baseURL(field, text, fallback string) (*url.URL, error) {
	if text == "" {
		text = fallback
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%w: web: %s is no http or https URL of a host", perdure.Invalid, field)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%w: web: %s must have neither user, query nor fragment: give the part before /v1", perdure.Invalid, field)
	}
	return u, nil
}

// named is a host as the model may read it: an address is the operator's business (EG3).
func named(u *url.URL) string {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Hostname() == "localhost" {
		return "the weather service"
	}
	return u.Hostname()
}

// described takes the text that the model reads from its file.
func described(text string) string { return strings.TrimSpace(text) }

// yes is a hint that is set.
func yes() *bool {
	set := true
	return &set
}
