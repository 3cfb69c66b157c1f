//! What a template begins with.

use oncebox_protocol::SecretString;
use oncebox_protocol::api::{AwsRegistry, GcpRegistry, GeneralRegistry, ImageRegistry};

use super::{Base, DEFAULT_IMAGE, Template, dockerfile};
use crate::error::Error;

impl Template {
    /// The provider's own base image.
    pub fn from_base_image() -> Self {
        Self::from_image(DEFAULT_IMAGE)
    }

    /// An image by its name, such as `debian:12-slim`. Not every server takes every image.
    pub fn from_image(image: impl Into<String>) -> Self {
        Self::image(image.into(), None)
    }

    /// An image of a registry that wants a user name and a password.
    pub fn from_image_with_login(
        image: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        let login = GeneralRegistry { username: username.into(), password: SecretString::from(password.into()) };
        Self::image(image.into(), Some(ImageRegistry::Registry(login)))
    }

    /// An image of Amazon's registry.
    pub fn from_aws_registry(
        image: impl Into<String>,
        access_key_id: impl Into<String>,
        secret_access_key: impl Into<String>,
        region: impl Into<String>,
    ) -> Self {
        let login = AwsRegistry {
            aws_access_key_id: access_key_id.into(),
            aws_secret_access_key: SecretString::from(secret_access_key.into()),
            aws_region: region.into(),
        };
        Self::image(image.into(), Some(ImageRegistry::Aws(login)))
    }

    /// An image of Google's registry, with a service account as JSON.
    pub fn from_gcp_registry(image: impl Into<String>, service_account_json: impl Into<String>) -> Self {
        let login = GcpRegistry { service_account_json: SecretString::from(service_account_json.into()) };
        Self::image(image.into(), Some(ImageRegistry::Gcp(login)))
    }

    /// Another template, by its name, `name:tag` or id.
    pub fn from_template(template: impl Into<String>) -> Self {
        let name = template.into();
        let empty = name.trim().is_empty();
        let mut template = Self::new(Base::Template(name));
        if empty {
            template.refuse("from_template: the name is empty");
        }
        template
    }

    /// Debian, by its version or name; `stable` is the official SDKs' default.
    pub fn from_debian_image(variant: &str) -> Self {
        Self::from_image(format!("debian:{variant}"))
    }

    /// Ubuntu, by its version; `latest` is the official SDKs' default.
    pub fn from_ubuntu_image(variant: &str) -> Self {
        Self::from_image(format!("ubuntu:{variant}"))
    }

    /// Fedora, by its version; `44` is the official SDKs' default.
    pub fn from_fedora_image(variant: &str) -> Self {
        Self::from_image(format!("fedora:{variant}"))
    }

    /// Alpine Linux, by its version; `3.24` is the official SDKs' default.
    pub fn from_alpine_image(variant: &str) -> Self {
        Self::from_image(format!("alpine:{variant}"))
    }

    /// Arch Linux; `latest` is the official SDKs' default.
    pub fn from_arch_image(variant: &str) -> Self {
        Self::from_image(format!("archlinux:{variant}"))
    }

    /// Python, by its version; `3` is the official SDKs' default.
    pub fn from_python_image(version: &str) -> Self {
        Self::from_image(format!("python:{version}"))
    }

    /// Node.js, by its version; `lts` is the official SDKs' default.
    pub fn from_node_image(variant: &str) -> Self {
        Self::from_image(format!("node:{variant}"))
    }

    /// Bun, by its version; `latest` is the official SDKs' default.
    pub fn from_bun_image(variant: &str) -> Self {
        Self::from_image(format!("oven/bun:{variant}"))
    }

    /// A Dockerfile's text. One stage; `EXPOSE`, `VOLUME`, `LABEL`, `MAINTAINER`, `HEALTHCHECK` and `STOPSIGNAL` are passed
    /// over, as the official SDKs do; what else has no place in a template is refused, not passed over, and so is an `ADD` of
    /// an archive, which Docker would unpack. Its steps begin as `root` in `/` and end as `user` in `/home/user`, where it says
    /// nothing else.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) with the line.
    pub fn from_dockerfile(text: &str) -> Result<Self, Error> {
        dockerfile::read(text)
    }

    /// What logs in at the image's registry.
    pub(super) fn password(&self) -> Option<&SecretString> {
        let Base::Image { login: Some(login), .. } = &self.base else { return None };
        match login {
            ImageRegistry::Registry(login) => Some(&login.password),
            ImageRegistry::Aws(login) => Some(&login.aws_secret_access_key),
            ImageRegistry::Gcp(login) => Some(&login.service_account_json),
            _ => None,
        }
    }

    fn image(name: String, login: Option<ImageRegistry>) -> Self {
        let name = name.trim().to_owned();
        let wrong = name.is_empty() || name.ends_with(':') || name.contains(char::is_whitespace);
        let mut template = Self::new(Base::Image { name: name.clone(), login });
        if wrong {
            template.refuse(format!("from_image: {name:?} is no image's name, such as debian:stable"));
        }
        template
    }
}
