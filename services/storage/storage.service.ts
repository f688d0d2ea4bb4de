import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import { AppError } from "../../lib/errors.ts";
import { type ActionContext, implementService, type ServiceHost } from "../../lib/service.ts";
import { gatewayOrigins, linkBase, nodeLinkBase } from "./link-base.ts";
import type { FormRequest, LinkOptions, ObjectStore } from "./object-store.ts";
import { openStore } from "./open-store.ts";
import { removeOutputs } from "./remove-outputs.ts";
import { linkProblem, signLink } from "./signed-link.ts";
import { storageContract } from "./storage.contract.ts";
import { keepUp, type Upkeep } from "./upkeep.ts";
import { checkForm, issueTicket } from "./upload-policy.ts";

interface StorageState {
  store: ObjectStore;
  upkeep: Upkeep;
}

const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

/** Where the links of this call lead: nodes may reach a gateway by another way than clients. */
const baseFor = (
  ctx: Pick<ActionContext<{ audience: LinkOptions["audience"] }>, "params" | "meta" | "nodeID">,
  host: ServiceHost,
) =>
  ctx.params.audience === "node"
    ? nodeLinkBase(host, ctx.nodeID ?? undefined)
    : linkBase(host, ctx.meta);

function ticketFor(
  host: ServiceHost,
  { expires, ...request }: FormRequest & { region: string },
  base: string,
) {
  const ticket = issueTicket(
    host.config.STORAGE_SECRET,
    {
      ...request,
      accessKeyId: `STS.${randomBytes(12).toString("hex")}`,
      expire: inSeconds(expires),
    },
    Date.now(),
  );
  return { ...ticket, host: `${base}/objects/${request.bucket}` };
}

export const storageService = implementService(storageContract, {
  async start(host): Promise<StorageState> {
    const store = await openStore(host.config);
    return { store, upkeep: await keepUp(host, store) };
  },
  async stop({ store, upkeep }) {
    await upkeep.stop();
    await store.close();
  },
  handlers: {
    put(ctx, { store }) {
      const { bytes, bytesMin, bytesMax, md5, ...object } = ctx.params;
      if (!ctx.stream)
        throw new AppError("INVALID_INPUT", { reason: "storage.put needs the option `stream`" });
      const source = ctx.stream as Readable;
      return store.put(object, source, { bytes, bytesMin, bytesMax, md5 });
    },
    read(ctx, { store }) {
      const { start, end, etag, ...ref } = ctx.params;
      return store.read(ref, { start, end, etag });
    },
    stat: (ctx, { store }) => store.stat(ctx.params),
    async remove(ctx, { store }) {
      await store.remove(ctx.params);
      return {};
    },
    removePrefix: async (ctx, { store }) => ({
      removed: await store.removePrefix(ctx.params.bucket, ctx.params.prefix),
    }),
    removeOutputs: async (ctx, { store }, { config }) => ({
      removed: await removeOutputs(store, config.OSS_BUCKET_NAME, ctx.params),
    }),
    list: (ctx, { store }) => store.list(ctx.params),
    async link(ctx, { store }, host) {
      const { expires, audience, ...ref } = ctx.params;
      const direct = await store.readUrl?.(ref, { expires, audience });
      if (direct) return { url: direct };
      const path = signLink(host.config.STORAGE_SECRET, {
        ...ref,
        method: "GET",
        expires: expires === undefined ? undefined : inSeconds(expires),
      });
      return { url: baseFor(ctx, host) + path };
    },
    async uploadLink(ctx, { store }, host) {
      const { expires, audience, bytesMax, bytes, md5, ...ref } = ctx.params;
      const direct = await store.uploadUrl?.({ ...ref, bytes, md5 }, { expires, audience });
      if (direct) return { url: direct };
      const path = signLink(host.config.STORAGE_SECRET, {
        ...ref,
        method: "PUT",
        bytesMax: bytes ?? bytesMax,
        expires: inSeconds(expires),
      });
      return { url: baseFor(ctx, host) + path };
    },
    addresses(_ctx, _state, host) {
      const { OSS_BUCKET_NAME, OSS_DOMAIN, S3_ENDPOINT, S3_PUBLIC_ENDPOINT, S3_ADDRESSING } =
        host.config;
      const endpoints = [S3_ENDPOINT, S3_PUBLIC_ENDPOINT].filter((url) => url !== undefined);
      return {
        bucket: OSS_BUCKET_NAME,
        origins: gatewayOrigins(host),
        bucketUrl: OSS_DOMAIN,
        s3: S3_ENDPOINT ? { endpoints, addressing: S3_ADDRESSING } : undefined,
      };
    },
    admit(ctx, _state, host) {
      const reason = linkProblem(host.config.STORAGE_SECRET, ctx.params, Date.now());
      if (reason) throw new AppError("LINK_REJECTED", { reason });
      return {};
    },
    uploadForm: (ctx, _state, host) => ticketFor(host, ctx.params, linkBase(host, ctx.meta)),
    async postForm(ctx, { store }, host) {
      const direct = await store.postForm?.(ctx.params);
      if (direct) return direct;
      const ticket = ticketFor(
        host,
        { ...ctx.params, region: host.config.OSS_REGION },
        linkBase(host, ctx.meta),
      );
      return {
        url: ticket.host,
        fields: {
          policy: ticket.policy,
          "x-oss-signature-version": ticket.x_oss_signature_version,
          "x-oss-credential": ticket.x_oss_credential,
          "x-oss-date": ticket.x_oss_date,
          "x-oss-signature": ticket.signature,
          "x-oss-security-token": ticket.security_token,
        },
      };
    },
    admitForm(ctx, _state, host) {
      const { bucket, fields } = ctx.params;
      const verdict = checkForm(host.config.STORAGE_SECRET, bucket, fields, Date.now());
      if (verdict.problem !== undefined)
        throw new AppError("UPLOAD_REJECTED", { reason: verdict.problem });
      return verdict.value;
    },
  },
});
