//! Links as each system wants it of an addon.

fn main() {
    napi_build::setup();
}
